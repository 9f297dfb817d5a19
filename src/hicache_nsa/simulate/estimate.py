"""Time to first token from hits: an estimate, one request at a time on an idle machine. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hicache_nsa.sizing import Bandwidth

STATED = (
    "an estimate: max(load, compute) + min(load, compute) / layers, with load = host hit bytes / "
    "bandwidth and compute = tokens not found (one at least) / prefill rate; no queueing, and "
    "attention costs no more in a longer prompt"
)
Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TtftEstimate:
    """What times are made of. token_bytes, layers: of the model.

    A load comes layer by layer and each layer computes once it is there, as layers of equal size
    pass through two machines one after the other: ``STATED`` is the time until the last one is out.
    """

    bandwidth: Bandwidth
    prefill_rate: float
    token_bytes: float
    layers: int

    def seconds(
        self, tokens: Counts, device_tokens: Counts, host_tokens: Counts
    ) -> npt.NDArray[np.float64]:
        """Of each request, given its tokens and those found in the tiers; int64 [n] each."""
        load = host_tokens * (self.token_bytes / self.bandwidth.bytes_per_second)
        compute = np.maximum(tokens - device_tokens - host_tokens, 1) / self.prefill_rate
        both: npt.NDArray[np.float64] = (
            np.maximum(load, compute) + np.minimum(load, compute) / self.layers
        )
        return both

    def to_json(self) -> dict[str, object]:
        """What the numbers stand on."""
        return {
            "stated": STATED,
            "bandwidth_bytes_per_second": self.bandwidth.bytes_per_second,
            "bandwidth_source": self.bandwidth.source,
            "prefill_tokens_per_second": self.prefill_rate,
            "token_bytes": self.token_bytes,
            "layers": self.layers,
        }
