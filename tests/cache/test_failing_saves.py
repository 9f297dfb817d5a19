"""Saves that fail for good must not keep pages from callers for good."""

from __future__ import annotations

import pytest
from engine import PAGE
from small_cache import SmallCache

import hicache_nsa as hc
from hicache_nsa import testing

FIRST = list(range(1, 4 * PAGE + 1))
SECOND = list(range(1000, 1000 + 4 * PAGE))


def allocate_with_failing_saves(small: SmallCache, num_pages: int, tries: int = 8) -> int:
    """How often it took until the pages were there; every save on the way fails."""
    for attempt in range(1, tries + 1):
        testing.fail_next(small.cache, "d2h")
        try:
            small.allocate(num_pages)
        except hc.OutOfPages:
            small.settle()
            small.poll()
        else:
            return attempt
    raise AssertionError(f"no pages after {tries} attempts")


def test_polled_allocate_gives_up_saves_after_two_failures():
    with SmallCache(8, 8, write_policy="write_back", acks="poll") as small:
        small.put(FIRST)
        small.put(SECOND)
        assert allocate_with_failing_saves(small, 2) == 3
        assert small.stats().failed_saves == 2
        assert small.device == (0, 6, 0, 2)


def test_saves_are_tried_again_afterwards():
    with SmallCache(8, 8, write_policy="write_back", acks="poll") as small:
        small.put(FIRST)
        small.put(SECOND)
        allocate_with_failing_saves(small, 2)
        testing.fail_next(small.cache, "d2h", after_pages=0)
        with pytest.raises(hc.OutOfPages, match="leave once"):
            small.allocate(2)
        assert small.in_flight == 1
