"""How fast host memory reaches the device: measured, given, or unknown; never a guess."""

from __future__ import annotations

from dataclasses import dataclass

from hicache_nsa import link_curve

NO_NUMBER = (
    "and no number is put in its place. Give --bandwidth (54.4 is what one H200 on PCIe 5 x16 "
    "showed), or run hicache bench link on the machine with the GPU."
)
# What the C++ core says, and what it means here.
_PLAIN = {
    "has no CUDA backend": "this build of hicache-nsa has no CUDA backend, so no GPU's is known",
    "cudaErrorInsufficientDriver": "no NVIDIA driver was found here, or one that is older than the "
    "CUDA of this build (hicache doctor says which)",
    "cudaErrorNoDevice": "no GPU was found here",
}


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
        said = str(error)
        reason = next((plain for part, plain in _PLAIN.items() if part in said), said)
        return NoBandwidth(f"{reason.rstrip('.')}, {NO_NUMBER}")
    if curve is None:
        return NoBandwidth(f"no link curve is kept for this GPU, {NO_NUMBER}")
    return Bandwidth(link_curve.peak_rate(curve, "h2d"), f"link curve {file}")
