"""Argument checks that the format builders share."""

from __future__ import annotations

import operator
from typing import Any

MAX_DIM = 1 << 40


def positive_int(value: Any, name: str) -> int:
    """``value`` as an int in 1..2**40; ``TypeError`` or ``ValueError`` name the argument."""
    if isinstance(value, bool):
        raise TypeError(f"{name} must be an int, got {value!r}")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an int, got {type(value).__name__}") from None
    if not 1 <= number <= MAX_DIM:
        raise ValueError(f"{name}={number} is outside 1..{MAX_DIM}")
    return number


def one_of(value: Any, name: str, known: tuple[str, ...]) -> str:
    """``value`` if it is one of ``known``; the error lists them."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, got {type(value).__name__}")
    if value not in known:
        raise ValueError(f"{name}={value!r} is unknown; known: {', '.join(known)}")
    return value
