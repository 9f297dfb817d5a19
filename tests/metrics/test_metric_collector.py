"""The collector in a registry: the table and nothing else, several caches, caches that go."""

from __future__ import annotations

import dataclasses
import gc
import itertools
import os
import subprocess
import sys
import threading
import weakref

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from scrape import Scrape, scrape, scrape_text

import hicache_nsa as hc
from hicache_nsa import testing
from hicache_nsa.metrics import METRICS, PREFIX, Collector
from hicache_nsa.simulate.cache import SimulatedCache

FORMAT = hc.formats.dsa(3, page_size=4, kv_lora_rank=128, rope_head_dim=4)
SUFFIXES = {
    "counter": ("_total",),
    "gauge": ("",),
    "info": ("_info",),
    "histogram": ("_bucket", "_count", "_sum"),
}


def small_cache(**options) -> hc.HiCache:
    return hc.HiCache(FORMAT, **{"device_pages": 16, "host_pages": 16, **options})


def put(cache: hc.HiCache, count: int, first: int = 0) -> None:
    """Insert so many tokens, and wait until they are on host."""
    cache.insert(range(first, first + count), cache.allocate(count // 4))
    assert cache.drain(30)


def expected_series(**labels: str) -> set[tuple[str, frozenset[tuple[str, str]]]]:
    """From the table: names with all their labels; ``le`` apart."""
    own = {
        "buffer": tuple(buffer.name for buffer in FORMAT.buffers),
        "version": (hc.__version__,),
        "format": (FORMAT.name,),
        "device": ("cpu",),
        "layout": ("page_first",),
    }
    series = set()
    for metric in METRICS:
        names = [name for name, _ in metric.labels]
        values = [own.get(name, values) for name, values in metric.labels]
        for combination in itertools.product(*values):
            found = frozenset({**labels, **dict(zip(names, combination, strict=True))}.items())
            series |= {(PREFIX + metric.name + end, found) for end in SUFFIXES[metric.type]}
    return series


def series(found: Scrape) -> set[tuple[str, frozenset[tuple[str, str]]]]:
    return {
        (name, frozenset(label for label in labels if label[0] != "le"))
        for name, labels in found.values
    }


def test_every_row_is_exported_with_its_labels_and_nothing_else() -> None:
    with small_cache() as cache:
        collector = Collector(cache, labels={"model": "glm-5", "rank": 0})
        found = scrape_text(collector)
        assert series(found) == expected_series(model="glm-5", rank="0")
        assert series(scrape_text(Collector(cache))) == expected_series()


def test_families_come_in_the_order_of_the_table_with_type_and_help() -> None:
    with small_cache() as cache:
        families = list(Collector(cache).collect())
    assert [(f.name, f.type, f.documentation) for f in families] == [
        (PREFIX + metric.name, metric.type, metric.help) for metric in METRICS
    ]


def test_there_are_no_created_series() -> None:
    registry = CollectorRegistry()
    with small_cache() as cache:
        registry.register(Collector(cache))
        assert b"_created" not in generate_latest(registry)
        assert b"_created" not in openmetrics.generate_latest(registry)


def test_open_metrics_has_the_same_samples() -> None:
    registry = CollectorRegistry()
    with small_cache() as cache:
        put(cache, 24)
        collector = Collector(cache, labels={"rank": "3"})
        registry.register(collector)
        text = openmetrics.generate_latest(registry).decode()
        found = Scrape(text_string_to_metric_families(text))
        assert found.values == scrape_text(collector).values == scrape(collector).values


def test_several_caches_share_each_family() -> None:
    with small_cache() as one, small_cache(device_pages=24) as two:
        collector = Collector()
        collector.add(one, labels={"rank": 0})
        collector.add(two, labels={"rank": 1})
        put(one, 16)
        put(two, 24)
        found = scrape_text(collector)
        assert series(found) == expected_series(rank="0") | expected_series(rank="1")
        assert len(found.families) == len(METRICS)
        computed = {r: found.value("tokens_total", source="computed", rank=r) for r in "01"}
        assert computed == {"0": 16, "1": 24}
        sizes = {r: found.value("tier_bytes", tier="device", rank=r) for r in "01"}
        assert sizes == {"0": 16 * FORMAT.page_bytes, "1": 24 * FORMAT.page_bytes}


def test_caches_of_different_formats_have_their_own_buffers() -> None:
    plain = hc.formats.mla(2, page_size=4, kv_dtype="bf16")
    with small_cache() as one, hc.HiCache(plain, device_pages=8, host_pages=8) as two:
        collector = Collector(one, labels={"model": "a"})
        collector.add(two, labels={"model": "b"})
        found = scrape_text(collector)
        buffers = {
            model: {
                dict(labels)["buffer"]
                for name, labels in found.values
                if name == "hicache_saved_bytes_total" and dict(labels)["model"] == model
            }
            for model in "ab"
        }
        assert buffers["a"] == {b.name for b in FORMAT.buffers}
        assert buffers["b"] == {b.name for b in plain.buffers} != buffers["a"]


def test_a_second_collector_in_a_registry_is_refused_when_it_is_registered() -> None:
    with small_cache() as one, small_cache() as two:
        registry = CollectorRegistry()
        registry.register(Collector(one, labels={"rank": 0}))
        with pytest.raises(ValueError, match="Duplicated timeseries"):
            registry.register(Collector(two, labels={"rank": 1}))


def broken(cache: hc.HiCache) -> hc.CacheStats:
    raise hc.HiCacheError("broken")


def test_registering_asks_no_cache(monkeypatch) -> None:
    with small_cache() as cache:
        collector = Collector(cache)
        monkeypatch.setattr(hc.HiCache, "observe", broken)
        CollectorRegistry().register(collector)
        assert [family.samples for family in collector.describe()] == [[]] * len(METRICS)


def test_a_closed_cache_has_no_series_and_the_others_keep_theirs() -> None:
    with small_cache() as one:
        two = small_cache()
        collector = Collector(one, labels={"rank": 0})
        collector.add(two, labels={"rank": 1})
        two.close()
        assert series(scrape_text(collector)) == expected_series(rank="0")
    assert series(scrape_text(collector)) == set()
    assert len(scrape_text(collector).families) == len(METRICS)


def test_the_labels_of_a_cache_that_is_gone_are_free_again() -> None:
    collector = Collector(small_cache(), labels={"rank": 0})
    gc.collect()
    with small_cache() as again:
        collector.add(again, labels={"rank": 0})
        assert series(scrape_text(collector)) == expected_series(rank="0")


def test_a_cache_that_closes_during_a_scrape_is_left_out(monkeypatch) -> None:
    with small_cache() as one:
        two = small_cache()
        collector = Collector(one, labels={"rank": 0})
        collector.add(two, labels={"rank": 1})
        observe = hc.HiCache.observe

        def late(cache: hc.HiCache) -> hc.CacheStats:
            two.close()
            return observe(cache)

        monkeypatch.setattr(hc.HiCache, "observe", late)
        assert series(scrape(collector)) == expected_series(rank="0")


def test_an_error_of_a_cache_that_is_open_is_not_hidden(monkeypatch) -> None:
    with small_cache() as cache:
        collector = Collector(cache)
        monkeypatch.setattr(hc.HiCache, "observe", broken)
        with pytest.raises(hc.HiCacheError, match="broken"):
            scrape(collector)


def test_a_collector_keeps_no_cache_alive() -> None:
    cache = small_cache()
    collector = Collector(cache)
    scrape(collector)
    gone = weakref.ref(cache)
    del cache
    gc.collect()
    assert gone() is None
    assert series(scrape(collector)) == set()


def test_remove() -> None:
    with small_cache() as one, small_cache() as two:
        collector = Collector(one)
        collector.remove(two)  # never added: no error
        with pytest.raises(ValueError, match=r"already: remove\(\) it first"):
            collector.add(one, labels={"rank": 1})
        collector.remove(one)
        assert series(scrape(collector)) == set()
        collector.add(one, labels={"rank": 1})
        assert series(scrape(collector)) == expected_series(rank="1")


def test_what_cannot_be_exported_is_refused_and_changes_nothing() -> None:
    with small_cache() as cache:
        collector = Collector(cache, labels={"rank": 0})
        with pytest.raises(TypeError, match="exports a HiCache, got TransferEngine"):
            collector.add(cache.engine, labels={"rank": 1})
        with pytest.raises(TypeError, match="got type"):
            Collector(hc.HiCache)
        closed = small_cache()
        closed.close()
        with pytest.raises(ValueError, match="the cache is closed"):
            collector.add(closed, labels={"rank": 1})
        with small_cache() as other:
            for labels in (None, {}, {"rank": "0"}, {"tier": "x"}, {"model": "x"}):
                with pytest.raises(ValueError):
                    collector.add(other, labels=labels)
        with pytest.raises(ValueError, match=r"give them to add\(\)"):
            Collector(labels={"rank": 0})
        unwritable = dataclasses.replace(FORMAT, name="dsa\ud800")
        with (
            hc.HiCache(unwritable, device_pages=4, host_pages=4) as other,
            pytest.raises(ValueError, match="'format' can't be written in UTF-8"),
        ):
            collector.add(other, labels={"rank": "1"})
        assert series(scrape(collector)) == expected_series(rank="0")


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
