"""The link curve that is kept for a GPU."""

from __future__ import annotations

import os
import time

from hicache_nsa import link_curve
from hicache_nsa.doctor.facts import Curve

PIECE = 48 << 10  # bytes, near what a page of a layer has


def read_curve(device: str) -> Curve:
    """Of ``cuda`` or ``cuda:N``. Nothing is measured and nothing is written.

    Raises:
        RuntimeError: there is no such device.
    """
    file = link_curve.curve_file(device)
    folder = next(each for each in file.parents if each.is_dir())
    writable = os.access(folder, os.W_OK)
    curve = link_curve.kept_curve(device)
    if curve is None:
        return Curve(str(file), writable)
    pieces = curve.points()["h2d"]["piece"]
    nbytes, seconds = min(pieces, key=lambda point: abs(point[0] - PIECE))
    return Curve(
        str(file),
        writable,
        age_seconds=max(0.0, time.time() - file.stat().st_mtime),
        h2d=link_curve.peak_rate(curve, "h2d"),
        d2h=link_curve.peak_rate(curve, "d2h"),
        piece_bytes=nbytes,
        piece_seconds=seconds,
    )
