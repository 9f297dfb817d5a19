"""How fast host memory reaches the device: measured, given, or unknown; never a guess."""

from __future__ import annotations

from dataclasses import dataclass

from hicache_nsa import link_curve

HOW_TO_MEASURE = "hicache bench link measures it on a GPU, or give --bandwidth"


@dataclass(frozen=True)
class Bandwidth:
    """Host to device. source: where the number is from."""

    bytes_per_second: float
    source: str


@dataclass(frozen=True)
class NoBandwidth:
    """It is unknown: why, and what would tell."""

    reason: str


def kept_bandwidth(device: str = "cuda") -> Bandwidth | NoBandwidth:
    """The speed of the link by the curve that is kept for ``device``; nothing is measured."""
    try:
        curve = link_curve.kept_curve(device)
        file = link_curve.curve_file(device)
    except RuntimeError as error:
        return NoBandwidth(f"{error} {HOW_TO_MEASURE}")
    if curve is None:
        return NoBandwidth(f"no link curve is kept for this GPU; {HOW_TO_MEASURE}")
    return Bandwidth(link_curve.peak_rate(curve, "h2d"), f"link curve {file}")
