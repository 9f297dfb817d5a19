"""What a bench found out, complete at any moment: an interrupted run reports what it has."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

Row = dict[str, Any]
"""A case as the JSON shows it: id, direction, bytes, seconds_median, gbps, share_of_peak, verified
and what else is known of it.
"""


@dataclass(slots=True)
class Report:
    """``settings`` and ``machine`` are what was asked for and found; ``cases`` grows.

    ``load_average``: other work on the machine before the start; figures of a busy one are worth
    little. ``error``: why it ended early, if something failed.
    """

    settings: Mapping[str, object]
    machine: Mapping[str, object]
    load_average: float
    cases: list[Row] = field(default_factory=list)
    interrupted: bool = False
    error: str | None = None

    @property
    def passed(self) -> bool:
        """Everything was measured, and every byte was right."""
        unbroken = not self.interrupted and self.error is None
        return unbroken and all(case["verified"] for case in self.cases)

    @property
    def conclusions(self) -> dict[str, object]:
        """What follows from the cases, for the JSON."""
        return {}

    def to_json(self) -> dict[str, object]:
        """The report as the command's JSON shows it, without what every command reports."""
        return {
            "settings": dict(self.settings),
            "load_average_at_start": self.load_average,
            **self.conclusions,
            "cases": self.cases,
            "interrupted": self.interrupted,
            "error": self.error,
        }


@dataclass(slots=True)
class BenchReport(Report):
    """Of copies, each timed beside a contiguous one."""

    _contiguous: dict[str, dict[int, list[float]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )

    def contiguous(self, direction: str, nbytes: int, seconds: float) -> None:
        """Take in one contiguous copy of ``nbytes``, from which ``peak`` is made."""
        self._contiguous[direction][nbytes].append(nbytes / seconds / 1e9)

    @property
    def peak(self) -> dict[str, float | None]:
        """GB/s of the contiguous copies of the largest size, by direction: their median."""
        return {f"{direction}_gbps": self._peak(direction) for direction in ("h2d", "d2h")}

    def _peak(self, direction: str) -> float | None:
        sizes = self._contiguous[direction]
        return median(sizes[max(sizes)]) if sizes else None

    @property
    def conclusions(self) -> dict[str, object]:
        """The contiguous copies."""
        return {"peak": self.peak}
