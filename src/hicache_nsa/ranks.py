"""Several ranks, one set of decisions: caches with ``acks="poll"`` that take in the same copies.

Every rank makes the same calls in the same order. What differs is when copies end, and whether they
end well. One small collective a step settles both; docs/ranks.md has the recipe.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from hicache_nsa.cache import HiCache, Ready

__all__ = ["Least", "Ready", "drain_together", "poll_together", "same_everywhere"]

Least: TypeAlias = Callable[[Sequence[int]], Sequence[int]]
"""A collective over all ranks: the least of each number. Every number fits int64."""

HALF = 32


def poll_together(cache: HiCache, least: Least) -> int:
    """Take in the copies that have ended on every rank; returns how many, the same everywhere.

    One collective of two numbers, none when no copy is in flight. A copy that failed on any rank
    fails on all; it is the last that the call takes in.
    """
    ended, sound = least(cache.ready()) if cache.in_flight else (0, 0)
    return cache.poll(ended, sound=sound)


def drain_together(cache: HiCache, least: Least) -> int:
    """Wait until every copy in flight is in, on every rank; returns how many were taken in.

    For ranks in place of ``drain()``, and before ``reset`` and ``clear``: those take in what failed
    here only as failed here only. One collective, and one for each copy that
    failed and for saves that start behind a load.
    """
    count = 0
    while cache.in_flight:
        ended, sound = least(cache.ready(timeout=None))
        count += cache.poll(ended, sound=sound)
    return count


def same_everywhere(cache: HiCache, least: Least) -> bool:
    """Whether ``cache.digest()`` is the same on every rank. One collective of four numbers."""
    high, low = divmod(cache.digest(), 1 << HALF)
    most_high, most_low = -high, -low
    low_end = least([high, low, most_high, most_low])
    return list(low_end[:2]) == [-number for number in low_end[2:]]
