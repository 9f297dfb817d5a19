"""From statistics to samples, without a client: each row reads what it says, zeros are there."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from hicache_nsa.histogram import Histogram
from hicache_nsa.metrics.samples import READERS, CacheFacts, Sample, label_values, samples
from hicache_nsa.metrics.table import METRICS, Metric
from hicache_nsa.stats import CacheStats, CopyStats, TierStats

ROWS = {metric.name: metric for metric in METRICS}
FACTS = CacheFacts(
    page_tokens=64,
    buffer_bytes={"latent": 1_000, "index_k": 10},
    info={"version": "1.2", "format": "dsa/fp8", "device": "cuda:1", "layout": "page_first"},
)


def distinct() -> CacheStats:
    """Statistics in which no two numbers are equal, so that a wrong one is seen."""
    numbers = iter(range(1_000, 9_000))

    def filled(kind, **given):
        names = [f.name for f in fields(kind) if f.name not in given]
        return kind(**{name: next(numbers) for name in names}, **given)

    def seen(bounds):
        return Histogram(bounds, [next(numbers) for _ in range(len(bounds) + 1)], next(numbers) / 8)

    tiers = {t: filled(TierStats, eviction_age=seen((1, 60))) for t in ("device", "host")}
    ways = {way: filled(CopyStats, seconds=seen((0.001, 0.5))) for way in ("h2d", "d2h")}
    pages = {"load_back_tokens": 64 * next(numbers), "saved_tokens": 64 * next(numbers)}
    return filled(CacheStats, **tiers, **ways, **pages)


def by_tier(field: str):
    return lambda s: {
        f"tier={tier}": getattr(getattr(s, tier), field) for tier in ("device", "host")
    }


def plain(field: str):
    return lambda s: {"": getattr(s, field)}


def by_reason(verb: str, *reasons: str):
    return lambda s: {f"reason={why}": getattr(s, f"{verb}_{why}_tokens") for why in reasons}


def pages_by_state(s: CacheStats) -> dict[str, float]:
    found = {}
    for name, tier in (("device", s.device), ("host", s.host)):
        states = {
            "free": tier.free_pages,
            "cached": tier.evictable_pages,
            "locked": tier.locked_pages,
            "in_flight": tier.in_flight_pages,
            "owned": tier.owned_pages - tier.in_flight_pages,
        }
        found |= {f"tier={name} state={state}": pages for state, pages in states.items()}
    return found


EXPECTED = {
    "requested_tokens": plain("requested_tokens"),
    "found_host_tokens": plain("found_host_tokens"),
    "missed_tokens": by_reason("missed", "cold", "evicted", "flushed", "failed", "partial"),
    "dropped_tokens": by_reason("dropped", "evicted", "flushed", "failed"),
    "exposed_wait_seconds": plain("exposed_wait_seconds"),
    "exposed_waits": plain("exposed_waits"),
    "pages": pages_by_state,
    "tokens": lambda s: {
        "source=computed": s.inserted_tokens,
        "source=device": s.matched_device_tokens,
        "source=host": s.matched_host_tokens,
    },
    "duplicate_tokens": plain("duplicate_tokens"),
    "loaded_tokens": plain("load_back_tokens"),
    "saved_tokens": plain("saved_tokens"),
    "loaded_bytes": lambda s: {
        "buffer=latent": s.load_back_tokens / 64 * 1_000,
        "buffer=index_k": s.load_back_tokens / 64 * 10,
    },
    "saved_bytes": lambda s: {
        "buffer=latent": s.saved_tokens / 64 * 1_000,
        "buffer=index_k": s.saved_tokens / 64 * 10,
    },
    "copies": lambda s: {
        "direction=h2d result=ok": s.h2d.copies,
        "direction=h2d result=failed": s.h2d.failed,
        "direction=d2h result=ok": s.d2h.copies,
        "direction=d2h result=failed": s.d2h.failed,
    },
    "copies_by_way": lambda s: {
        "direction=h2d way=direct": s.h2d.direct,
        "direction=h2d way=kernel": s.h2d.kernel,
        "direction=h2d way=staged": s.h2d.staged,
        "direction=d2h way=direct": s.d2h.direct,
        "direction=d2h way=kernel": s.d2h.kernel,
        "direction=d2h way=staged": s.d2h.staged,
    },
    "copies_in_flight": lambda s: {
        "direction=h2d": s.loads_in_flight,
        "direction=d2h": s.saves_in_flight,
    },
    "joined_loads": plain("joined_loads"),
    "declined_loads": plain("declined_loads"),
    "cancelled_loads": plain("cancelled_loads"),
    "evicted_tokens": lambda s: {
        "tier=device": s.evicted_device_tokens,
        "tier=host": s.evicted_host_tokens,
    },
    "refused_save_tokens": plain("refused_save_tokens"),
    "restored_host_tokens": plain("restored_host_tokens"),
    "damaged_host_pages": plain("damaged_host_pages"),
    "verified_pages": plain("verified_pages"),
    "corrupt_pages": plain("corrupt_pages"),
    "pinned_pages": by_tier("pinned_pages"),
    "largest_free_extent": by_tier("largest_free_extent"),
    "tier_bytes": by_tier("total_bytes"),
    "ready_bytes": by_tier("ready_bytes"),
    "page_tokens": lambda s: {"": 64},
    "cache": lambda s: {"version=1.2 format=dsa/fp8 device=cuda:1 layout=page_first": 1},
}


def exported(name: str, stats: CacheStats) -> dict[str, float]:
    return {
        " ".join(f"{label}={value}" for label, value in sample.labels.items()): sample.value
        for sample in samples(ROWS[name], FACTS, stats)
    }


def test_every_row_has_a_reader_and_each_is_compared_here() -> None:
    histograms = {metric.name for metric in METRICS if metric.type == "histogram"}
    assert set(READERS) == set(ROWS) == set(EXPECTED) | histograms


@pytest.mark.parametrize("name", EXPECTED)
def test_a_row_reads_what_it_says(name: str) -> None:
    stats = distinct()
    assert exported(name, stats) == EXPECTED[name](stats)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_all_label_values_are_there_from_the_start(metric: Metric) -> None:
    found = list(samples(metric, FACTS, CacheStats()))
    names = tuple(name for name, _ in metric.labels)
    for sample in found:
        own = tuple(name for name in sample.labels if name != "le")
        assert own == names
        assert metric.name in ("page_tokens", "cache") or sample.value == 0
    combinations = {tuple(sample.labels[name] for name in names) for sample in found}
    assert combinations == set(label_values(metric, FACTS))
    for position, (_, values) in enumerate(metric.labels):
        if values[0][0] != "<":
            assert {combination[position] for combination in combinations} == set(values)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_a_reader_gives_the_values_of_the_table_and_no_others(metric: Metric) -> None:
    values = READERS[metric.name](FACTS, distinct())
    assert set(values) == set(label_values(metric, FACTS))


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_suffixes_are_those_of_the_type(metric: Metric) -> None:
    suffixes = {sample.suffix for sample in samples(metric, FACTS, distinct())}
    assert (
        suffixes
        == {
            "counter": {"_total"},
            "gauge": {""},
            "info": {"_info"},
            "histogram": {"_bucket", "_count", "_sum"},
        }[metric.type]
    )


def test_a_histogram_is_a_running_sum_by_upper_bounds() -> None:
    seen = Histogram((0.0001, 0.5, 10), [3, 0, 4, 1], 30.25)
    stats = replace(CacheStats(), d2h=CopyStats(7, 1, seconds=seen))
    found = [
        s for s in samples(ROWS["copy_seconds"], FACTS, stats) if s.labels["direction"] == "d2h"
    ]
    way = {"direction": "d2h"}
    assert found == [
        Sample("_bucket", {**way, "le": "0.0001"}, 3),
        Sample("_bucket", {**way, "le": "0.5"}, 3),
        Sample("_bucket", {**way, "le": "10.0"}, 7),
        Sample("_bucket", {**way, "le": "+Inf"}, 8),
        Sample("_count", way, 8),
        Sample("_sum", way, 30.25),
    ]


def test_ages_of_both_tiers_are_told_apart() -> None:
    stats = distinct()
    for sample in samples(ROWS["evicted_page_age_seconds"], FACTS, stats):
        ages: Histogram = getattr(stats, sample.labels["tier"]).eviction_age
        if sample.suffix != "_bucket":
            assert sample.value == {"_count": ages.count, "_sum": ages.total}[sample.suffix]


def test_names_follow_the_rules_of_prometheus() -> None:
    assert len(ROWS) == len(METRICS)
    for metric in METRICS:
        assert metric.name.replace("_", "").isalnum() and metric.name == metric.name.lower()
        assert not metric.name.endswith(("_total", "_info", "_count", "_sum", "_bucket"))
        assert metric.help.endswith(".") and "\n" not in metric.help
        assert metric.type != "histogram" or metric.unit == "seconds"
