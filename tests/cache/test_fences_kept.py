"""Fences of finished work are let go of, also where no copy ever asks for them."""

from __future__ import annotations

from small_cache import SmallCache

import hicache_nsa as hc
from hicache_nsa.cache.ledger import FEW


def test_a_cache_without_a_host_tier_keeps_few_fences():
    with hc.CpuStream() as stream, SmallCache(8, 0) as small:
        for _ in range(5 * FEW):
            small.cache.free(small.cache.allocate(1), stream=stream)
            stream.synchronize()
        assert len(small.cache._state.ledger._busy) <= FEW
