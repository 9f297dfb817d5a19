"""What has to hold in every scrape of one cache: the table's equations, and a walk of the pages."""

from __future__ import annotations

from collections.abc import Iterable

from page_walk import Walked, walk_device, walk_host
from scrape import Scrape, scrape

import hicache_nsa as hc
from hicache_nsa.metrics import Collector

TIERS, STATES = ("device", "host"), ("free", "cached", "locked", "in_flight", "owned")
DIRECTIONS = ("h2d", "d2h")


class Watch:
    """Scrapes one cache again and again, and looks at each scrape."""

    def __init__(self, cache: hc.HiCache, reserved: Iterable[int] = ()) -> None:
        self.cache = cache
        self.reserved = tuple(reserved)
        self.collector = Collector(cache)
        self.last = scrape(self.collector)

    def look(self) -> Scrape:
        """One scrape, which is all right."""
        now = scrape(self.collector)
        now.require_sound()
        require_nothing_fell(self.last, now)
        require_sums(self.cache.format, now)
        walked = {"device": walk_device(self.cache, self.reserved), "host": walk_host(self.cache)}
        require_walked(self.cache, walked, now)
        self.last = now
        return now


def require_nothing_fell(before: Scrape, now: Scrape) -> None:
    later = now.cumulative()
    fell = {key: (value, later[key]) for key, value in before.cumulative().items()
            if later[key] < value}  # fmt: skip
    assert not fell, fell
    assert before.values.keys() == now.values.keys()


def require_sums(fmt: hc.PoolFormat, s: Scrape) -> None:
    """The equations of ``hicache_nsa.metrics.table``."""
    found = s.value("tokens_total", source="device") + s["found_host_tokens_total"]
    assert s["requested_tokens_total"] == found + s.sum("missed_tokens_total")
    for tier in TIERS:
        pages = s.value("evicted_page_age_seconds_count", tier=tier)
        assert pages * fmt.page_size == s.value("evicted_tokens_total", tier=tier)
    for moved in ("loaded", "saved"):
        tokens = s[f"{moved}_tokens_total"]
        for buffer in fmt.buffers:
            nbytes = buffer.page_bytes * len(buffer.layers) * tokens / fmt.page_size
            assert s.value(f"{moved}_bytes_total", buffer=buffer.name) == nbytes, buffer.name
        assert s.sum(f"{moved}_bytes_total") == tokens * fmt.token_bytes
    for direction in DIRECTIONS:
        ended = s.sum("copies_total", direction=direction)
        assert s.value("copy_seconds_count", direction=direction) == ended
    assert s["page_tokens"] == fmt.page_size


def require_walked(cache: hc.HiCache, walked: dict[str, Walked], s: Scrape) -> None:
    """Each gauge is what the pages say."""
    state = cache._state
    for tier, seen in walked.items():
        states = {name: s.value("pages", tier=tier, state=name) for name in STATES}
        assert states == seen.states, (tier, states, seen.states)
        assert sum(states.values()) == seen.total, tier
        assert s.value("pinned_pages", tier=tier) == seen.pinned, tier
        assert s.value("largest_free_extent", tier=tier) == seen.longest, tier
    for direction, copies in (("h2d", state.loads), ("d2h", state.saves)):
        assert s.value("copies_in_flight", direction=direction) == len(copies)
    assert s.sum("dropped_tokens_total") == state.counters.dropped_tokens
    nbytes = {"device": cache.device_pool.num_pages, "host": cache.host_pool.num_pages}
    for tier, pages in nbytes.items():
        assert s.value("tier_bytes", tier=tier) == pages * cache.format.page_bytes
    ready = cache.host_pool.memory.ready_bytes
    assert s.value("ready_bytes", tier="host") == ready
    assert s.value("ready_bytes", tier="device") == s.value("tier_bytes", tier="device")
