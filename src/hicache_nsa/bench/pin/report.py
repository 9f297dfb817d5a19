"""What the bench of host memory found out, complete at any moment."""

from __future__ import annotations

from dataclasses import dataclass, field

from hicache_nsa.bench.pin.settings import GIB
from hicache_nsa.bench.report import Report

PINNED, ALLOCATED = "pin/touch_register", "pin/cuda_host_alloc"


@dataclass(slots=True)
class PinReport(Report):
    """``cases``: a row each: id, bytes, seconds_median, seconds_per_gib, release_seconds_per_gib
    (medians of the rounds), verified, and what else is known of it.

    ``left_out``: ids of what this machine cannot do, and why.
    """

    left_out: dict[str, str] = field(default_factory=dict)

    def add(self, id: str, nbytes: int, seconds: float, release: float, **more: object) -> None:
        """Take in one case. seconds, release: to have the memory and to give it back."""
        self.cases.append(
            {
                "id": id,
                "direction": None,
                "bytes": nbytes,
                "seconds_median": seconds,
                "seconds_per_gib": seconds / nbytes * GIB,
                "gbps": nbytes / seconds / 1e9,
                "release_seconds": release,
                "release_seconds_per_gib": release / nbytes * GIB,
                **more,
            }
        )

    @property
    def ratio(self) -> float | None:
        """Seconds a GiB of ``cudaHostAlloc`` by those of touch and register; None without both."""
        found = {case["id"]: case["seconds_per_gib"] for case in self.cases}
        if not {PINNED, ALLOCATED} <= found.keys():
            return None
        return float(found[ALLOCATED] / found[PINNED])

    @property
    def conclusions(self) -> dict[str, object]:
        """``cudaHostAlloc`` beside ours, and what is missing."""
        return {"alloc_by_pin": self.ratio, "left_out": self.left_out}
