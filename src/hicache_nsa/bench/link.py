"""``hicache bench link``: the curve by which ``auto`` chooses the ways of copies.

``piece``: one of a batch of contiguous copies. ``rectangle``: one 2-D copy. ``kernel``: one layer
by the kernel. bytes: of one of them. seconds: what one costs while others follow it.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path

from hicache_nsa import link_curve
from hicache_nsa.bench.report import Row
from hicache_nsa.errors import HiCacheError


@dataclass(frozen=True, slots=True)
class LinkReport:
    """``identity``: what the curve is kept for. ``age_seconds``: of ``file``; None: it is not kept.

    ``warnings``: why it could not be kept.
    """

    device: str
    identity: str
    file: Path
    measured_now: bool
    age_seconds: float | None
    cases: list[Row]
    warnings: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, object]:
        """The report as the command's JSON shows it, without what every command reports."""
        curve = {
            "file": self.file.name,
            "measured_now": self.measured_now,
            "age_seconds": self.age_seconds,
            "warnings": self.warnings,
        }
        return {"curve": curve, "cases": self.cases}


def link_report(device: str, again: bool = False) -> LinkReport:
    """The kept curve of ``cuda`` or ``cuda:N``; if there is none, or ``again``, measured now.

    Raises:
        HiCacheError: there is no such device, or the link can't be measured.
    """
    said: list[str] = []
    try:
        identity, file = link_curve.identity_of(device), link_curve.curve_file(device)
        curve = None if again else link_curve.kept_curve(device)
        measured_now = curve is None
        if curve is None:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", RuntimeWarning)
                curve = link_curve.measure(device)
            said = [str(each.message) for each in caught]
    except RuntimeError as error:
        raise HiCacheError(f"no link to show: {error}") from error
    return LinkReport(
        device,
        identity,
        file,
        measured_now,
        _age(file) if not said else None,
        _cases(curve.points()),
        said,
    )


def _age(file: Path) -> float | None:
    try:
        return max(0.0, time.time() - file.stat().st_mtime)
    except OSError:
        return None


def _cases(points: dict[str, dict[str, list[tuple[int, float]]]]) -> list[Row]:
    return [
        {
            "id": f"link/{direction}/{operation}/{size}",
            "direction": direction,
            "operation": operation,
            "bytes": size,
            "seconds_median": seconds,
            "gbps": size / seconds / 1e9,
        }
        for direction in ("h2d", "d2h")
        for operation in ("piece", "rectangle", "kernel")
        for size, seconds in points[direction][operation]
    ]
