"""Sizes in bytes: ``50`` (an int is bytes), ``"50GiB"`` (binary) or ``"50GB"`` (decimal)."""

from __future__ import annotations

import operator
import re
from decimal import Decimal

_UNITS = {
    "": 1,
    "b": 1,
    **{f"{p}b": 1000**i for i, p in enumerate("kmgtp", start=1)},
    **{f"{p}ib": 1024**i for i, p in enumerate("kmgtp", start=1)},
}
_PATTERN = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*")


def parse_size(size: int | str, name: str = "size") -> int:
    """Return ``size`` in bytes. ``name`` is what error messages call it.

    Raises:
        TypeError: neither an int nor a string.
        ValueError: negative, or not a number with one of the units B, KB..PB, KiB..PiB.
    """
    if isinstance(size, str):
        match = _PATTERN.fullmatch(size)
        if match is None or match[2].lower() not in _UNITS:
            raise ValueError(
                f'{name}={size!r} is not a size: give bytes or a number with a unit ("50GiB")'
            )
        return int(Decimal(match[1]) * _UNITS[match[2].lower()])
    if isinstance(size, bool):
        raise TypeError(f"{name}={size!r}: a bool is not a size")
    try:
        number = operator.index(size)
    except TypeError:
        raise TypeError(f"{name} must be an int or a string, got {type(size).__name__}") from None
    if number < 0:
        raise ValueError(f"{name}={number} is negative")
    return number


def format_size(nbytes: float) -> str:
    """``nbytes`` for people: ``"2.93 GiB"``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if nbytes < 1024:
            return f"{nbytes:.0f} {unit}" if unit == "B" else f"{nbytes:.2f} {unit}"
        nbytes /= 1024
    return f"{nbytes:.2f} TiB"
