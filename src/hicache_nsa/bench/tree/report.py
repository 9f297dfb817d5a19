"""What the tree's bench found out, complete at any moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hicache_nsa.bench.report import Row


@dataclass(slots=True)
class TreeReport:
    """``cases``: a row for each case and tree: id, case, peer (None: ours), figure (the name of the
    one that is compared), every figure, rounds, ratio (ours by the peer's), verified.

    ``left_out``: ids of cases that need what was not given, and why.
    """

    settings: Mapping[str, object]
    load_average: float
    left_out: dict[str, str] = field(default_factory=dict)
    machine: dict[str, object] = field(default_factory=dict)
    cases: list[Row] = field(default_factory=list)
    interrupted: bool = False
    error: str | None = None

    @property
    def passed(self) -> bool:
        """Everything was measured, and what it found was right."""
        return not self.interrupted and self.error is None

    def to_json(self) -> dict[str, object]:
        """The report as the command's JSON shows it, without what every command reports."""
        return {
            "settings": dict(self.settings),
            "load_average_at_start": self.load_average,
            "cases": self.cases,
            "left_out": self.left_out,
            "interrupted": self.interrupted,
            "error": self.error,
        }
