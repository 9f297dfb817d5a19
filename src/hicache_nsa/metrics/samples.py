"""From a snapshot of a cache to the samples of one metric. Pure; nothing here knows a client."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from hicache_nsa.histogram import Histogram
from hicache_nsa.metrics.table import (
    BY_CACHE,
    BY_FORMAT,
    TIERS,
    WAYS,
    Metric,
)
from hicache_nsa.stats import DROP_REASONS, MISS_REASONS, CacheStats, CopyStats, TierStats
from hicache_nsa.transfer import DIRECTIONS


@dataclass(frozen=True)
class CacheFacts:
    """What of a cache never changes.

    page_tokens: tokens a page. buffer_bytes: bytes of a page in each buffer, over all layers.
    info: values of the labels of ``hicache_cache_info``.
    """

    page_tokens: int
    buffer_bytes: Mapping[str, int]
    info: Mapping[str, str]


@dataclass(frozen=True)
class Sample:
    """One line of a scrape. suffix: what its name has behind the metric's."""

    suffix: str
    labels: dict[str, str]
    value: float


_Values = Mapping[tuple[str, ...], float | Histogram]
"""By the values of the row's labels, in the row's order."""
_Reader = Callable[[CacheFacts, CacheStats], _Values]


def samples(metric: Metric, facts: CacheFacts, stats: CacheStats) -> Iterator[Sample]:
    """All samples of ``metric``, one for each combination of its label values, zeros too."""
    values = READERS[metric.name](facts, stats)
    names = [name for name, _ in metric.labels]
    for combination in label_values(metric, facts):
        labels = dict(zip(names, combination, strict=True))
        value = values[combination]
        if isinstance(value, Histogram):
            yield from _histogram_samples(labels, value)
        else:
            yield Sample(_SUFFIXES[metric.type], labels, float(value))


def label_values(metric: Metric, facts: CacheFacts) -> Iterator[tuple[str, ...]]:
    """Every combination of values that the labels of ``metric`` have for such a cache."""
    return itertools.product(*(_values_of(name, values, facts) for name, values in metric.labels))


def _values_of(name: str, values: tuple[str, ...], facts: CacheFacts) -> tuple[str, ...]:
    if values is BY_FORMAT:
        return tuple(facts.buffer_bytes)
    if values is BY_CACHE:
        return (facts.info[name],)
    return values


_SUFFIXES = {"counter": "_total", "gauge": "", "info": "_info"}


def _histogram_samples(labels: dict[str, str], seen: Histogram) -> Iterator[Sample]:
    reached = itertools.accumulate(seen.counts)
    for bound, count in zip((*map(float, seen.bounds), float("inf")), reached, strict=True):
        le = "+Inf" if bound == float("inf") else repr(bound)
        yield Sample("_bucket", {**labels, "le": le}, float(count))
    yield Sample("_count", labels, float(seen.count))
    yield Sample("_sum", labels, float(seen.total))


# -- what each row reads ------------------------------------------------------------------------


def _stat(name: str) -> _Reader:
    """A field of ``CacheStats``; the row has no labels."""
    return lambda facts, stats: {(): getattr(stats, name)}


def _by_tier(read: Callable[[TierStats], float | Histogram]) -> _Reader:
    return lambda facts, stats: {(tier,): read(getattr(stats, tier)) for tier in TIERS}


def _by_direction(read: Callable[[CopyStats], float | Histogram]) -> _Reader:
    return lambda facts, stats: {(way,): read(getattr(stats, way)) for way in DIRECTIONS}


def _bytes_of(name: str) -> _Reader:
    """Bytes by buffer of that many tokens, which are whole pages."""

    def read(facts: CacheFacts, stats: CacheStats) -> _Values:
        pages = getattr(stats, name) // facts.page_tokens
        return {(buffer,): pages * nbytes for buffer, nbytes in facts.buffer_bytes.items()}

    return read


def _tokens(facts: CacheFacts, stats: CacheStats) -> _Values:
    return {
        ("computed",): stats.inserted_tokens,
        ("device",): stats.matched_device_tokens,
        ("host",): stats.matched_host_tokens,
    }


def _copies(facts: CacheFacts, stats: CacheStats) -> _Values:
    ended = {direction: getattr(stats, direction) for direction in DIRECTIONS}
    return {
        **{(direction, "ok"): copies.copies for direction, copies in ended.items()},
        **{(direction, "failed"): copies.failed for direction, copies in ended.items()},
    }


def _copies_by_way(facts: CacheFacts, stats: CacheStats) -> _Values:
    return {
        (direction, way): getattr(getattr(stats, direction), way)
        for direction in DIRECTIONS
        for way in WAYS
    }


def _by_reason(verb: str, reasons: tuple[str, ...]) -> _Reader:
    return lambda facts, stats: {
        (reason,): getattr(stats, f"{verb}_{reason}_tokens") for reason in reasons
    }


def _pages(facts: CacheFacts, stats: CacheStats) -> _Values:
    values: dict[tuple[str, ...], int] = {}
    for name in TIERS:
        tier: TierStats = getattr(stats, name)
        values[name, "free"] = tier.free_pages
        values[name, "cached"] = tier.evictable_pages
        values[name, "locked"] = tier.locked_pages
        values[name, "in_flight"] = tier.in_flight_pages
        values[name, "owned"] = tier.owned_pages - tier.in_flight_pages
    return values


READERS: dict[str, _Reader] = {
    "requested_tokens": _stat("requested_tokens"),
    "tokens": _tokens,
    "found_host_tokens": _stat("found_host_tokens"),
    "missed_tokens": _by_reason("missed", MISS_REASONS),
    "duplicate_tokens": _stat("duplicate_tokens"),
    "loaded_tokens": _stat("load_back_tokens"),
    "saved_tokens": _stat("saved_tokens"),
    "loaded_bytes": _bytes_of("load_back_tokens"),
    "saved_bytes": _bytes_of("saved_tokens"),
    "copies": _copies,
    "copies_by_way": _copies_by_way,
    "copy_seconds": _by_direction(lambda copies: copies.seconds),
    "exposed_wait_seconds": _stat("exposed_wait_seconds"),
    "exposed_waits": _stat("exposed_waits"),
    "copies_in_flight": lambda facts, stats: {
        ("h2d",): stats.loads_in_flight,
        ("d2h",): stats.saves_in_flight,
    },
    "joined_loads": _stat("joined_loads"),
    "declined_loads": _stat("declined_loads"),
    "cancelled_loads": _stat("cancelled_loads"),
    "evicted_tokens": lambda facts, stats: {
        ("device",): stats.evicted_device_tokens,
        ("host",): stats.evicted_host_tokens,
    },
    "evicted_page_age_seconds": _by_tier(lambda tier: tier.eviction_age),
    "dropped_tokens": _by_reason("dropped", DROP_REASONS),
    "refused_save_tokens": _stat("refused_save_tokens"),
    "restored_host_tokens": _stat("restored_host_tokens"),
    "damaged_host_pages": _stat("damaged_host_pages"),
    "verified_pages": _stat("verified_pages"),
    "corrupt_pages": _stat("corrupt_pages"),
    "pages": _pages,
    "pinned_pages": _by_tier(lambda tier: tier.pinned_pages),
    "largest_free_extent": _by_tier(lambda tier: tier.largest_free_extent),
    "tier_bytes": _by_tier(lambda tier: tier.total_bytes),
    "ready_bytes": _by_tier(lambda tier: tier.ready_bytes),
    "page_tokens": lambda facts, stats: {(): facts.page_tokens},
    "cache": lambda facts, stats: {tuple(facts.info.values()): 1},
}
"""By the names of the table's rows."""
