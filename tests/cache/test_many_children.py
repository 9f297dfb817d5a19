"""Write back of a prefix with many continuations: what an ack does must not grow with them."""

from __future__ import annotations

import numpy as np
from engine import PAGE
from small_cache import SmallCache

from hicache_nsa import testing
from hicache_nsa._core import ChildTable

HEAD = list(range(1, PAGE + 1))
MANY = 12


def with_children(small: SmallCache, count: int) -> None:
    head = small.put(HEAD).pages
    for first in range(100, 100 + count):
        tokens = [*HEAD, *[first] * PAGE]
        small.insert(tokens, np.concatenate([head, small.compute(tokens, 1)]))


def test_an_ack_walks_no_list_of_children(monkeypatch):
    with SmallCache(16, 16, write_policy="write_back", acks="poll") as small:
        with_children(small, MANY)
        with testing.hold(small.cache, "d2h"):
            assert small.evict_device((MANY + 1) * PAGE) == (MANY + 1) * PAGE
        small.settle()

        def refuse(self):
            raise AssertionError("an ack asked for all children of a node")

        with monkeypatch.context() as patched:
            patched.setattr(ChildTable, "values", refuse)
            while small.cache.poll(1):
                pass
        small.check()
        assert small.device == (16, 0, 0, 0)
        assert small.hit(HEAD) == (0, PAGE)


def test_a_prefix_stays_until_the_last_child_has_left():
    with SmallCache(16, 16, write_policy="write_back", acks="poll") as small:
        with_children(small, 3)
        with testing.hold(small.cache, "d2h"):
            small.evict_device(4 * PAGE)
        small.settle()
        for acked in range(1, 3):
            assert small.poll(1) == 1
            assert small.device == (12 + acked, 0, 4 - acked, 0)
            assert small.hit(HEAD) == (PAGE, 0)
        assert small.poll() == 1
        assert small.device == (16, 0, 0, 0)
