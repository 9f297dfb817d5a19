"""What the bench of host memory found out, complete at any moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hicache_nsa.bench.pin.settings import GIB
from hicache_nsa.bench.report import Row

PINNED, ALLOCATED = "pin/touch_register", "pin/cuda_host_alloc"


@dataclass(slots=True)
class PinReport:
    """``cases``: a row each: id, bytes, seconds_median (of the one run that counts),
    seconds_per_gib, release_seconds_per_gib, verified, and what else is known of it.

    ``left_out``: ids of what this machine cannot do, and why.
    """

    settings: Mapping[str, object]
    machine: Mapping[str, object]
    load_average: float
    left_out: dict[str, str] = field(default_factory=dict)
    cases: list[Row] = field(default_factory=list)
    interrupted: bool = False
    error: str | None = None

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
    def passed(self) -> bool:
        """Everything was measured, and every byte was right."""
        unbroken = not self.interrupted and self.error is None
        return unbroken and all(case["verified"] for case in self.cases)

    def to_json(self) -> dict[str, object]:
        """The report as the command's JSON shows it, without what every command reports."""
        return {
            "settings": dict(self.settings),
            "load_average_at_start": self.load_average,
            "alloc_by_pin": self.ratio,
            "cases": self.cases,
            "left_out": self.left_out,
            "interrupted": self.interrupted,
            "error": self.error,
        }
