"""``DoctorReport``: all lines, and the figures behind them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hicache_nsa.doctor.facts import Curve, Measured
from hicache_nsa.doctor.finding import FAIL, VERDICTS, Finding


@dataclass(frozen=True)
class DoctorReport:
    """lines: name -> finding, in the order of CHECKS. measured, curve: None: could not be read.

    interrupted: ^C while it read or measured.
    """

    device: str
    lines: Mapping[str, Finding]
    measured: Measured | None
    curve: Curve | None
    interrupted: bool

    @property
    def passed(self) -> bool:
        """No line failed, and nothing was cut short."""
        return not self.interrupted and not self.count(FAIL)

    def count(self, verdict: str) -> int:
        """Lines with that verdict."""
        return sum(line.verdict == verdict for line in self.lines.values())

    def to_json(self) -> dict[str, object]:
        """The report as the command's JSON shows it, without what every command reports."""
        return {
            "device": self.device,
            "passed": self.passed,
            "interrupted": self.interrupted,
            "counts": {verdict: self.count(verdict) for verdict in VERDICTS},
            "measured": _rates(self.measured),
            "link_curve": None
            if self.curve is None
            else {
                "file": self.curve.file,
                "age_seconds": self.curve.age_seconds,
                **_rates(self.curve),
            },
            "lines": [
                {
                    "name": name,
                    "verdict": line.verdict,
                    "found": line.found,
                    "meaning": line.meaning,
                    "fix": line.fix,
                }
                for name, line in self.lines.items()
            ],
        }


def _rates(of: Measured | Curve | None) -> dict[str, float | None]:
    h2d, d2h = (None, None) if of is None else (of.h2d, of.d2h)
    return {
        "h2d_gbps": None if h2d is None else h2d / 1e9,
        "d2h_gbps": None if d2h is None else d2h / 1e9,
    }
