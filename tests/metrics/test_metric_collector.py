"""The collector in a registry: the table and nothing else, several caches, caches that go."""

from __future__ import annotations

import dataclasses
import gc
import weakref

import pytest
from metric_cache import FORMAT, expected_series, put, series, small_cache
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from scrape import Scrape, scrape, scrape_text

import hicache_nsa as hc
from hicache_nsa.metrics import METRICS, PREFIX, Collector


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
