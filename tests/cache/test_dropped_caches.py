"""A cache that nobody holds any more is freed, with copies that were never taken in."""

from __future__ import annotations

import gc
import weakref

import pytest
from engine import PAGE
from small_cache import SmallCache

from hicache_nsa import testing

TOKENS = list(range(1, 4 * PAGE + 1))


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("retired", [False, True])
@pytest.mark.parametrize("direction", ["d2h", "h2d"])
def test_copies_that_were_not_taken_in_keep_no_tree(direction, retired, closed):
    small = SmallCache(8, 8, acks="poll")
    if direction == "h2d":
        small.put_on_host(TOKENS)
    with testing.hold(small.cache, direction):
        if direction == "h2d":
            load = small.start(TOKENS)
            del load
        else:
            small.put(TOKENS)
    assert small.in_flight == 1
    tree = weakref.ref(small.cache.tree)
    if retired:
        small.invalidate()
    if closed:
        small.cache.close()
    del small
    gc.collect()
    assert tree() is None
