"""Checks of arguments, shared by everything above."""

from __future__ import annotations

import operator
from typing import Any

MAX_DIM = 1 << 40
MAX_LAYERS = 100_000


def layer_ids(num_layers: Any) -> tuple[int, ...]:
    """``0 .. num_layers - 1``; at most MAX_LAYERS of them."""
    return tuple(range(positive_int(num_layers, "num_layers", MAX_LAYERS)))


def positive_int(value: Any, name: str, most: int = MAX_DIM) -> int:
    """``value`` as an int in 1..``most``; ``TypeError`` or ``ValueError`` name the argument."""
    number = _int(value, name)
    if not 1 <= number <= most:
        raise ValueError(f"{name}={number} is outside 1..{most}")
    return number


def count_of(value: Any, name: str, least: int | None = 0, most: int | None = None) -> int:
    """``value`` as an int that is at least ``least`` and at most ``most``."""
    number = _int(value, name)
    if least is not None and number < least:
        raise ValueError(f"{name}={number} must be {least} or more")
    if most is not None and number > most:
        raise ValueError(f"{name}={number} must be at most {most}")
    return number


def _int(value: Any, name: str) -> int:
    if isinstance(value, bool):
        raise TypeError(f"{name} must be an int, got {value!r}")
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an int, got {type(value).__name__}") from None


def one_of(value: Any, name: str, known: tuple[str, ...]) -> str:
    """``value`` if it is one of ``known``; the error lists them."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, got {type(value).__name__}")
    if value not in known:
        raise ValueError(f"{name}={value!r} is unknown; known: {', '.join(known)}")
    return value
