"""A save that had room on host for a part of what an insert brought."""

from __future__ import annotations

import time

import numpy as np

import hicache_nsa as hc
from hicache_nsa import testing

FORMAT = hc.formats.dsa(1, page_size=4, kv_lora_rank=128, rope_head_dim=4)


def test_what_found_no_room_on_host_is_not_locked_while_the_rest_is_saved() -> None:
    with hc.HiCache(FORMAT, device_pages=4, host_pages=2) as cache:
        with testing.hold(cache, "d2h"):
            cache.insert(np.arange(16), cache.allocate(4))
            stats = cache.stats()
            assert stats.refused_save_tokens == 8
            assert (stats.device.locked_pages, stats.device.evictable_pages) == (2, 2)
            assert cache.evict_device(16) == 8
            cache.check()
        assert cache.drain(30)
        assert cache.match_prefix(np.arange(16)).device_tokens == 8
        cache.check()


def test_a_failed_save_is_tried_again_while_what_follows_it_is_being_saved() -> None:
    """The later save covered the same node, and hid that nothing saved its first pages any more."""
    with hc.HiCache(FORMAT, device_pages=8, host_pages=4, acks="poll") as cache:
        other = cache.insert(np.arange(100, 108), cache.allocate(2), lock=True)
        assert cache.drain(30)
        pages = cache.allocate(4)
        with testing.hold(cache, "d2h"):
            testing.fail_next(cache, "d2h")
            cache.insert(np.arange(16), pages)  # two pages fit
            cache.unlock(other.handle)
            cache.insert(np.arange(16), pages)  # the other two
            assert cache.stats().saves_in_flight == 2
        while cache.engine.in_flight("d2h"):
            time.sleep(0.001)
        assert cache.poll(limit=1) == 1 and cache.stats().failed_saves == 1
        cache.insert(np.arange(16), pages)
        assert cache.stats().saves_in_flight == 2
        assert cache.drain(30)
        assert cache.reset().kept_host_tokens == 8
        cache.check()


def test_a_counted_match_that_starts_such_a_save_still_tells_all_that_it_found() -> None:
    options = {"write_policy": "write_through_selective", "device_pages": 4, "host_pages": 2}
    with hc.HiCache(FORMAT, **options) as cache:
        cache.insert(np.arange(16), cache.allocate(4))
        match = cache.match_prefix(np.arange(16))
        assert (match.device_tokens, cache.stats().refused_save_tokens) == (16, 8)
        assert cache.drain(30)
        assert cache.reset().kept_host_tokens == 8
