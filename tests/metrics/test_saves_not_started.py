"""Saves that never became copies: those that could not be started, and those nobody asked for."""

from __future__ import annotations

import pytest
from scrape import scrape

import hicache_nsa as hc
from hicache_nsa.metrics import Collector

FORMAT = hc.formats.mla(2, kv_dtype="bf16", page_size=4)


def small_cache(**options) -> hc.HiCache:
    return hc.HiCache(FORMAT, **{"device_pages": 16, "host_pages": 16, **options})


def test_a_save_that_could_not_be_started_is_a_failed_copy(monkeypatch) -> None:
    """Else nothing that is exported would say so, and no alert."""

    def refuse(*args, **options):
        raise MemoryError("no memory for one more copy")

    with small_cache() as cache:
        collector = Collector(cache)
        with monkeypatch.context() as refused:
            refused.setattr(cache.engine, "submit", refuse)
            cache.insert(range(16), cache.allocate(4))
            cache.insert(range(100, 116), cache.allocate(4))
        cache.insert(range(200, 208), cache.allocate(2))
        assert cache.drain(30)
        found = scrape(collector)
        assert found.value("copies_total", direction="d2h", result="failed") == 2
        assert found.value("copies_total", direction="d2h", result="ok") == 1
        assert found.value("copy_seconds_count", direction="d2h") == 3
        assert found.value("copies_total", direction="h2d", result="failed") == 0
        again = scrape(collector)
        assert again.values == found.values


@pytest.mark.parametrize("policy", ["write_through", "write_through_selective", "write_back"])
def test_without_a_host_tier_no_save_is_refused(policy: str) -> None:
    """There is none to be had: an alert on refused saves would never end."""
    with small_cache(host_pages=0, write_policy=policy) as cache:
        for first in range(0, 96, 16):
            cache.insert(range(first, first + 16), cache.allocate(4))
            cache.match_prefix(range(first, first + 16))
            cache.match_prefix(range(first, first + 16))
        found = scrape(Collector(cache))
        assert found["refused_save_tokens_total"] == 0
        assert found.value("evicted_tokens_total", tier="device") == 32
        assert found.value("dropped_tokens_total", reason="evicted") == 32
