"""Spare pages: what eviction leaves free, and how ``stats()`` shows free pages and runs."""

from __future__ import annotations

import numpy as np
import pytest

import hicache_nsa as hc

FORMAT = hc.formats.dsa(1, page_size=4, kv_lora_rank=128, rope_head_dim=4)


def put(cache: hc.HiCache, first: int, pages: int) -> np.ndarray:
    """Insert ``pages`` pages of tokens that nobody else has, and wait for their save."""
    tokens = np.arange(first, first + pages * 4)
    cache.insert(tokens, cache.allocate(pages))
    assert cache.drain(30)
    return tokens


def fill(cache: hc.HiCache, prompts: int, pages: int = 10) -> None:
    for index in range(prompts):
        put(cache, index * 1000, pages)
        cache.check()


def test_without_spare_only_the_shortfall_goes() -> None:
    with hc.HiCache(FORMAT, device_pages=100, host_pages=100) as cache:
        fill(cache, 15)
        assert cache.stats().device.free_pages == cache.stats().host.free_pages == 0
        assert cache.stats().evicted_host_tokens == 50 * 4


def test_eviction_leaves_the_spare_pages_free() -> None:
    with hc.HiCache(FORMAT, device_pages=100, host_pages=200, spare=0.05) as cache:
        fill(cache, 25)
        stats = cache.stats()
        assert (stats.device.free_pages, stats.host.free_pages) == (5, 10)
        assert stats.evicted_device_tokens == (250 - 95) * 4
        assert stats.evicted_host_tokens == (250 - 190) * 4


def test_spare_pages_are_used_before_anything_is_refused() -> None:
    with hc.HiCache(FORMAT, device_pages=20, host_pages=20, spare=0.5) as cache:
        tokens = put(cache, 0, 10)
        lock = cache.lock(cache.match_prefix(tokens))
        mine = cache.allocate(10)
        assert len(mine) == 10 and cache.stats().device.free_pages == 0
        with pytest.raises(hc.OutOfPages):
            cache.allocate(1)
        cache.insert(np.arange(5000, 5040), mine)
        assert cache.drain(30)
        assert cache.stats().host.free_pages == 0 and cache.stats().refused_save_tokens == 0
        cache.unlock(lock)
        assert len(cache.allocate(0)) == 0
        assert cache.stats().device.free_pages == 0  # nothing wanted, nothing evicted


def test_a_pool_of_few_pages_has_none_to_spare() -> None:
    with hc.HiCache(FORMAT, device_pages=16, host_pages=16, spare=0.05) as cache:
        fill(cache, 4)
        assert cache.stats().device.free_pages == cache.stats().host.free_pages == 0


@pytest.mark.parametrize("spare", [-0.1, 0.51, 2, float("nan"), float("inf")])
def test_a_share_that_cannot_be_is_named(spare: float) -> None:
    with pytest.raises(ValueError, match=rf"spare={spare} must be between 0 and 0\.5"):
        hc.HiCache(FORMAT, device_pages=4, host_pages=4, spare=spare)


def test_stats_show_how_fragmented_the_free_pages_are() -> None:
    with hc.HiCache(FORMAT, device_pages=12, host_pages=8, device_reserved=[0]) as cache:
        pages = cache.allocate(11)
        assert _fragmentation(cache.stats().device) == (0, 0)
        cache.free(pages[[1, 3, 4, 8]])
        assert _fragmentation(cache.stats().device) == (3, 2)
        assert _fragmentation(cache.stats().host) == (1, 8)
        cache.free(pages[[0, 2, 5, 6, 7, 9, 10]])
        assert _fragmentation(cache.stats().device) == (1, 11)


def test_stats_show_pages_a_run() -> None:
    with hc.HiCache(FORMAT, device_pages=12, host_pages=12) as cache:
        empty = cache.stats()
        assert empty.saved_runs == empty.load_back_runs == 0
        assert empty.saved_pages_per_run == empty.load_back_pages_per_run == 0.0
        pages = cache.allocate(12)
        tokens = np.arange(6 * 4)
        cache.insert(tokens, pages[[0, 1, 2, 6, 7, 8]])  # two runs on the device, one on host
        assert cache.drain(30)
        assert (cache.stats().saved_runs, cache.stats().saved_pages_per_run) == (2, 3.0)
        cache.free(pages[[3, 4, 5, 9, 10, 11]])
        assert cache.evict_device(24) == 24
        load = cache.load_back(cache.match_prefix(tokens))
        assert load is not None and cache.drain(30)
        load.release()
        stats = cache.stats()
        assert (stats.load_back_runs, stats.load_back_pages_per_run) == (1, 6.0)
        cache.clear()
        assert cache.stats().saved_runs == 2  # totals, as the other counters


def _fragmentation(tier: hc.TierStats) -> tuple[int, int]:
    return tier.free_extents, tier.largest_free_extent
