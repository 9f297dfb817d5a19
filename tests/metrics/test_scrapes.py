"""What a scrape reads, costs and leaves alone while the cache works, closes and forks."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
from metric_cache import FORMAT, expected_series, put, series, small_cache
from scrape import scrape, scrape_text

from hicache_nsa import testing
from hicache_nsa.metrics import Collector
from hicache_nsa.simulate.cache import SimulatedCache


def test_a_scrape_takes_in_what_has_ended_and_leaves_a_polled_cache_alone() -> None:
    for acks, expected in (("auto", 16), ("poll", 0)):
        with small_cache(acks=acks) as cache:
            result = cache.insert(range(16), cache.allocate(4))
            assert result.inserted_tokens == 16
            (save,) = cache._state.saves
            assert save.ticket.wait_end(30)
            found = scrape(Collector(cache))
            assert found["saved_tokens_total"] == expected
            assert found.value("copies_in_flight", direction="d2h") == (expected == 0)
            assert found.value("copies_total", direction="d2h", result="ok") == 1


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
        put(cache, 8, first=200)
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


def test_while_the_tier_grows_a_scrape_takes_in_nothing() -> None:
    """What could not be had of memory is told once, to the engine's next call."""
    with testing.hold_preparation():
        cache = small_cache(host_pages=256, prepare_first="64KiB", prepare_step="64KiB")
    with cache:
        collector = Collector(cache)
        before = scrape(collector)
        assert cache.host_pool.growing
        assert (
            0 < before.value("ready_bytes", tier="host") < before.value("tier_bytes", tier="host")
        )
        ready = testing.step_preparation(cache)
        pages = cache.host_pool.total_pages
        after = scrape(collector)
        assert after.value("ready_bytes", tier="host") == ready
        assert cache.host_pool.total_pages == pages
        cache.stats()
        assert cache.host_pool.total_pages > pages


def test_pins_of_both_tiers() -> None:
    with small_cache() as cache:
        put(cache, 16)
        put(cache, 8, first=100)
        cache.evict_device(8)
        pin = cache.pin(cache.match_prefix(range(16), count=False), 60)
        found = scrape(Collector(cache))
        device = cache.match_prefix(range(16), count=False).device_tokens // 4
        assert found.value("pinned_pages", tier="device") == device
        assert found.value("pinned_pages", tier="host") == 4
        pin.release()
        assert scrape(Collector(cache)).sum("pinned_pages") == 0


def test_a_simulated_cache_is_exported_too() -> None:
    with SimulatedCache(FORMAT, device_pages=8, host_pages=32) as cache:
        put(cache, 32)
        found = scrape(Collector(cache))
        assert found["saved_tokens_total"] == 32
        assert found.value("copy_seconds_count", direction="d2h") == 1
        assert found.value("copy_seconds_sum", direction="d2h") == 0


def calls_of_a_scrape(prefixes: int) -> int:
    """Calls of Python and C functions; what is done once is done before."""
    with SimulatedCache(FORMAT, device_pages=prefixes, host_pages=prefixes) as cache:
        for first in range(prefixes):
            cache.insert([first] * 4, cache.allocate(1))
        assert cache.drain(30)
        assert len(list(cache.tree.nodes())) >= prefixes
        collector, calls = Collector(cache), 0
        scrape(collector)

        def count(frame: object, event: str, argument: object) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            list(collector.collect())
        finally:
            sys.setprofile(None)
        return calls


def test_a_scrape_walks_nothing() -> None:
    assert calls_of_a_scrape(2_000) == calls_of_a_scrape(10) > 100


def test_scrapes_beside_work_and_beside_close() -> None:
    collector = Collector()
    errors: list[BaseException] = []
    over = threading.Event()

    def scrape_on() -> None:
        try:
            while not over.is_set():
                found = scrape_text(collector)
                found.require_sound()
                for direction in ("h2d", "d2h") if found.values else ():
                    ended = found.sum("copies_total", direction=direction)
                    assert found.sum("copy_seconds_count", direction=direction) == ended
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=scrape_on) for _ in range(2)]
    for thread in threads:
        thread.start()
    for turn in range(6):
        with small_cache() as cache:
            collector.add(cache, labels={"turn": turn})
            for first in range(0, 4_000, 100):
                cache.insert(range(first, first + 16), cache.allocate(4))
    over.set()
    for thread in threads:
        thread.join(60)
    assert not errors, errors


def test_a_forked_child_exports_nothing_and_breaks_nothing() -> None:
    with small_cache() as cache:
        collector = Collector(cache)
        child = os.fork()
        if child == 0:
            try:
                os._exit(0 if series(scrape(collector)) == set() else 1)
            finally:
                os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
        assert series(scrape(collector)) == expected_series()


def test_without_prometheus_client_the_error_names_the_extra() -> None:
    code = """
import sys
sys.modules["prometheus_client"] = None
import hicache_nsa as hc
from hicache_nsa.metrics import METRICS, Collector
from hicache_nsa.metrics.samples import samples
cache = hc.HiCache(hc.formats.dsa(1), device_pages=1, host_pages=1)
try:
    Collector(cache)
except ImportError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'hicache-nsa[metrics]'" in run.stdout
