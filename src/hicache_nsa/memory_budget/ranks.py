"""How many processes on this host divide one budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

_VARIABLE = "LOCAL_WORLD_SIZE"
MOST_RANKS = 1 << 20


class LocalRanks(NamedTuple):
    """number: how many. source: where that is from, for messages."""

    number: int
    source: str


def local_ranks_of(local_ranks: int | None, environ: Mapping[str, str]) -> LocalRanks:
    """``local_ranks``, else ``LOCAL_WORLD_SIZE`` where that is a positive number, else 1."""
    if local_ranks is not None:
        return LocalRanks(local_ranks, f"local_ranks={local_ranks}")
    text = environ.get(_VARIABLE)
    if text is None:
        return LocalRanks(1, f"{_VARIABLE} is not set")
    word = text.strip()
    if word.isascii() and word.isdigit() and 1 <= int(word[:20]) <= MOST_RANKS:
        return LocalRanks(int(word), f"{_VARIABLE}={word}")
    return LocalRanks(1, f"{_VARIABLE}={text!r} is no count")
