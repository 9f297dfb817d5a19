"""F37: requests that are given up take their loads with them, at every stage. Page size 4."""

from __future__ import annotations

import random

import pytest
from case_cache import LONG, CaseCache

import hicache_nsa as hc
from hicache_nsa.testing import fail_next, hold

A = list(range(32))  # 8 pages


@pytest.mark.parametrize("acks", ["auto", "poll"])
def test_f37_a_thousand_cancelled_loads_leave_nothing(acks):
    """Queued, under way, run, taken in, failed, shared: each page is given back once."""
    rng = random.Random(37)
    with CaseCache(64, 32, acks=acks) as c:
        c.put_on_host(A)
        for cycle in range(1000):
            stage = ("queued", "shared", "failed", "under way", "run", "taken in")[cycle % 6]
            if stage == "failed":
                fail_next(c.cache, "h2d", rng.randrange(8))
            if stage in ("queued", "shared"):
                with hold(c.cache, "h2d"):
                    loads = [c.start_load(A) for _ in range(2 if stage == "shared" else 1)]
                    for load in loads:
                        load.cancel()
                    assert c.match_prefix(A).load_tokens == 32
            else:
                load = c.load_back(c.match_prefix(A), max_tokens=rng.randrange(4, 40))
                if stage != "under way":
                    c.settle("h2d")
                if stage == "taken in":
                    c.poll()
                load.cancel()
                load.cancel()
            assert c.drain(LONG)
            assert c.evict_device(64) in (0, *range(4, 33, 4))
            assert c.device == (64, 0, 0, 0) and c.host == (0, 32, 0, 0)
        assert set(c.locks()) == {0} and c.stats().loads_in_flight == 0
        load = c.start_load(A)  # the next one is as good as the first
        assert load.wait(LONG) and c.holds(load.pages, A)
        c.release(load)


def test_f37_what_arrives_late_is_nobodys_hit_and_overwrites_nobody():
    with CaseCache(32, 32) as c:
        c.put_on_host(A[:16])
        with hold(c.cache, "h2d"):
            load = c.start_load(A[:16])
            load.cancel()
            others = c.compute(range(100, 116))  # all that is left
            with pytest.raises(hc.OutOfPages, match="4 in loads"):
                c.allocate(1)
        assert c.drain(LONG)
        assert c.holds(others, range(100, 116)) and c.hit(A[:16]) == (0, 16)
        c.free(others)
        assert c.device == (32, 0, 0, 0) and c.stats().cancelled_loads == 1
