"""What a simulation found, complete at any moment: an interrupted one reports what it has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from hicache_nsa.formats import PoolFormat
from hicache_nsa.simulate.case import Case
from hicache_nsa.simulate.estimate import TtftEstimate
from hicache_nsa.simulate.serving import Served, Tiers
from hicache_nsa.traces import Trace


@dataclass(frozen=True)
class Result:
    """Hits of one case over its first ``requests`` requests, in tokens of whole pages.

    bound_hit_tokens: what no policy exceeds, with the room of both tiers; None: cut short.
    missed_tokens: in whole pages that no tier had, by reason: cold (seen for the first time),
        evicted, flushed; None: cut short.
    ttft_ms: estimated, by name of the figure; None where it was not asked for.
    """

    case: Case
    tiers: Tiers
    requests: int
    prompt_tokens: int
    device_hit_tokens: int
    host_hit_tokens: int
    bound_hit_tokens: int | None
    missed_tokens: Mapping[str, int] | None
    ttft_ms: Mapping[str, float] | None
    seconds: float

    @property
    def hit_tokens(self) -> int:
        """Of both tiers."""
        return self.device_hit_tokens + self.host_hit_tokens

    def rate(self, tokens: int | None) -> float | None:
        """``tokens`` as a share of the prompts'; None where there are none."""
        return None if tokens is None or not self.prompt_tokens else tokens / self.prompt_tokens

    def to_json(self) -> dict[str, object]:
        """A row of ``results``."""
        return {
            "policy": self.case.policy,
            "write_policy": self.case.write_policy,
            "device_bytes": self.case.device_bytes,
            "host_bytes": self.case.host_bytes,
            "device_pages_lent": self.tiers.lent,
            "requests": self.requests,
            "prompt_tokens": self.prompt_tokens,
            "device_hit_tokens": self.device_hit_tokens,
            "host_hit_tokens": self.host_hit_tokens,
            "device_hit_rate": self.rate(self.device_hit_tokens),
            "host_hit_rate": self.rate(self.host_hit_tokens),
            "bound_hit_tokens": self.bound_hit_tokens,
            "missed_tokens": self.missed_tokens,
            "ttft_ms_estimate": self.ttft_ms,
            "seconds": self.seconds,
        }


def result_of(
    trace: Trace,
    case: Case,
    tiers: Tiers,
    served: Served,
    bound_pages: int | None,
    estimate: TtftEstimate | None,
    seconds: float,
) -> Result:
    """The figures of what was served. seconds: that it took."""
    count = served.requests
    tokens = np.array([one.tokens for one in trace.requests[:count]], dtype=np.int64)
    device = np.array(served.device_pages[:count], dtype=np.int64) * trace.page_size
    host = np.array(served.host_pages, dtype=np.int64) * trace.page_size
    missed = served.missed_pages
    ttft = None
    if estimate is not None and count:
        times = 1e3 * estimate.seconds(tokens, device, host)
        ttft = {
            "mean": float(times.mean()),
            "p50": float(np.percentile(times, 50)),
            "p90": float(np.percentile(times, 90)),
        }
    return Result(
        case=case,
        tiers=tiers,
        requests=count,
        prompt_tokens=int(tokens.sum()),
        device_hit_tokens=int(device.sum()),
        host_hit_tokens=int(host.sum()),
        bound_hit_tokens=None if bound_pages is None else bound_pages * trace.page_size,
        missed_tokens=missed and {name: n * trace.page_size for name, n in missed.items()},
        ttft_ms=ttft,
        seconds=seconds,
    )


@dataclass
class SimulationReport:
    """``results`` grows. distinct_pages: what a tier needs to hold the whole trace."""

    trace: Trace
    format: PoolFormat
    distinct_pages: int
    flush_at: tuple[int, ...]
    write_threshold: int
    estimate: TtftEstimate | None
    results: list[Result] = field(default_factory=list)
    interrupted: bool = False

    def to_json(self) -> dict[str, object]:
        """The content of the command's JSON, without what every command reports."""
        trace = self.trace
        return {
            "trace": {
                "source": trace.source,
                "format": trace.kind,
                "block_size": trace.block_size,
                "tokenizer": trace.tokenizer,
                "requests": len(trace.requests),
                "prompt_tokens": trace.prompt_tokens,
                "longest_prompt_pages": trace.largest_pages,
                "distinct_pages": self.distinct_pages,
                "distinct_bytes": self.distinct_pages * self.format.page_bytes,
            },
            "format": {
                "name": self.format.name,
                "page_size": self.format.page_size,
                "page_bytes": self.format.page_bytes,
                "token_bytes": self.format.token_bytes,
            },
            "flush_at": list(self.flush_at),
            "write_threshold": self.write_threshold,
            "estimate": None if self.estimate is None else self.estimate.to_json(),
            "results": [result.to_json() for result in self.results],
            "interrupted": self.interrupted,
        }
