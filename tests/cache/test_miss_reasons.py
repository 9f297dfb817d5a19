"""Why tokens of a prompt were missed, and what took those that were dropped: exact numbers."""

from __future__ import annotations

import pytest
from engine import PAGE
from small_cache import LONG, SmallCache

import hicache_nsa as hc
from hicache_nsa import testing
from hicache_nsa.stats import DROP_REASONS, MISS_REASONS

A = list(range(100, 100 + 4 * PAGE))
LONGER = A + list(range(200, 200 + 2 * PAGE))
B = list(range(900, 900 + 4 * PAGE))


class Counting:
    """Differences of the counters of one cache."""

    def __init__(self, cache: SmallCache) -> None:
        self.cache = cache
        self.before = vars(cache.stats())

    def _since(self, names: list[str]) -> list[int]:
        now = vars(self.cache.stats())
        return [now[name] - self.before[name] for name in names]

    def missed(self, tokens: list[int], **options: object) -> dict[str, int]:
        """Pages of a counted match that were missed, by reason, and tokens behind them."""
        self.before = vars(self.cache.stats())
        match = self.cache.match_prefix(tokens, **options)
        names = [f"missed_{reason}_tokens" for reason in MISS_REASONS]
        found = dict(zip(MISS_REASONS, self._since(names), strict=True))
        (requested,) = self._since(["requested_tokens"])
        assert requested == len(tokens)
        assert self._since(["matched_device_tokens", "found_host_tokens"]) == [
            match.device_tokens,
            match.host_tokens,
        ]
        partial = found.pop("partial")
        pages = {reason: tokens // PAGE for reason, tokens in found.items() if tokens}
        assert sum(found.values()) == PAGE * sum(pages.values())
        return {**pages, **({"partial": partial} if partial else {})}

    def dropped(self) -> dict[str, int]:
        """Pages dropped since the last look, by what took them."""
        names = [f"dropped_{reason}_tokens" for reason in DROP_REASONS]
        found = dict(zip(DROP_REASONS, self._since(names), strict=True))
        assert self._since(["dropped_tokens"]) == [sum(found.values())]
        self.before = vars(self.cache.stats())
        return {reason: tokens // PAGE for reason, tokens in found.items() if tokens}


def test_what_was_never_there_is_cold_and_a_partial_page_is_partial() -> None:
    with SmallCache(16, 16) as cache:
        count = Counting(cache)
        assert count.missed(A) == {"cold": 4}
        assert count.missed([*A, 1, 2]) == {"cold": 4, "partial": 2}
        assert count.missed([1]) == {"partial": 1}
        assert count.missed([]) == {}
        cache.put(A)
        assert count.missed(A) == {}
        assert count.missed([*LONGER, 7]) == {"cold": 2, "partial": 1}
        assert count.missed(A, extra_key="other") == {"cold": 4}


def test_a_match_that_does_not_count_counts_nothing() -> None:
    with SmallCache(16, 16) as cache:
        cache.put(A)
        before = vars(cache.stats())
        cache.match_prefix(LONGER, count=False)
        assert vars(cache.stats()) == before


def test_what_eviction_took_from_both_tiers_is_evicted() -> None:
    with SmallCache(16, 16) as cache:
        count = Counting(cache)
        cache.put_on_host(A)
        assert count.dropped() == {}
        assert count.missed(LONGER) == {"cold": 2}  # all of A is on host
        cache.evict_host(3 * PAGE)
        assert count.dropped() == {"evicted": 3}
        assert count.missed(LONGER) == {"evicted": 3, "cold": 2}
        cache.put(A)
        assert count.missed(LONGER) == {"cold": 2}


def test_without_a_host_tier_eviction_from_the_device_is_the_reason() -> None:
    with SmallCache(8, 0) as cache:
        count = Counting(cache)
        cache.put(A)
        cache.put(B, lock=True)
        cache.evict_device(10**6)
        assert count.dropped() == {"evicted": 4}
        assert count.missed(A) == {"evicted": 4}
        assert count.missed(B) == {}


@pytest.mark.parametrize("how", ["reset", "clear", "invalidate"])
def test_what_a_flush_took_is_flushed(how: str) -> None:
    with SmallCache(16, 0) as cache:
        count = Counting(cache)
        cache.put(LONGER)
        cache.put(B)
        getattr(cache, how)()
        assert count.dropped() == {"flushed": 10}
        assert count.missed(LONGER) == {"flushed": 6}
        assert count.missed(B) == {"flushed": 4}
        cache.put(A)
        assert count.missed(LONGER) == {"flushed": 2}


def test_a_reset_takes_what_has_no_host_copy() -> None:
    with SmallCache(16, 2) as cache:
        count = Counting(cache)
        cache.put(A)
        report = cache.reset()
        assert (report.kept_host_tokens, report.dropped_tokens) == (2 * PAGE, 2 * PAGE)
        assert count.dropped() == {"flushed": 2}
        assert count.missed(A) == {"flushed": 2}


def test_a_flush_is_the_reason_of_all_that_was_cached_and_of_nothing_else() -> None:
    with SmallCache(16, 16) as cache:
        count = Counting(cache)
        cache.put(LONGER)
        cache.put(B)
        assert cache.drain(LONG)
        cache.evict_device(10**6)
        cache.evict_host(4 * PAGE)  # LONGER's tail goes first
        assert count.missed(LONGER) == {"evicted": 4}
        count.dropped()
        cache.clear()
        assert count.dropped() == {"flushed": 6}
        assert count.missed(LONGER) == {"flushed": 2, "evicted": 4}
        assert count.missed(B) == {"flushed": 4}


def test_a_failed_save_is_the_reason_when_the_device_copy_goes() -> None:
    with SmallCache(16, 16) as cache:
        count = Counting(cache)
        testing.fail_next(cache.cache, "d2h")
        cache.put(A)
        assert cache.drain(LONG) and cache.stats().failed_saves == 1
        assert count.missed(A) == {}
        count.dropped()
        cache.evict_device(2 * PAGE)
        assert count.dropped() == {"evicted": 2}  # that is what took them
        assert count.missed(A) == {"failed": 2}
        cache.clear()
        assert count.dropped() == {"flushed": 2}
        assert count.missed(A) == {"failed": 4}


def test_a_later_save_makes_up_for_a_failed_one() -> None:
    with SmallCache(16, 16) as cache:
        count = Counting(cache)
        testing.fail_next(cache.cache, "d2h")
        cache.put(A)
        assert cache.drain(LONG)
        cache.put(A)  # saves what has no host copy
        assert cache.drain(LONG) and cache.stats().saved_tokens == len(A)
        cache.evict_device(10**6)
        cache.evict_host(10**6)
        assert count.missed(A) == {"evicted": 4}


def test_pages_computed_anew_are_cached_whatever_failed_before() -> None:
    with SmallCache(16, 0) as cache:
        count = Counting(cache)
        cache.put(A)
        cache.evict_device(10**6)
        cache.put(A)
        cache.clear()
        assert count.missed(A) == {"flushed": 4}


def test_an_insert_behind_a_load_that_fails_has_failed() -> None:
    with SmallCache(16, 16) as cache:
        count = Counting(cache)
        cache.put_on_host(A)
        with testing.hold(cache.cache, "h2d"):
            testing.fail_next(cache.cache, "h2d")
            load = cache.start(A)
            assert count.missed(A) == {}  # what is being loaded is on host, and found there
            cache.put_behind(load, LONGER)
            assert count.missed(LONGER) == {"cold": 2}  # in no tier yet
            count.dropped()
        assert cache.drain(LONG)
        cache.end(load)
        assert count.dropped() == {"failed": 2}
        assert count.missed(LONGER) == {"failed": 2}
        cache.put(LONGER)
        assert count.missed(LONGER) == {}


def test_an_insert_behind_a_load_that_lands_is_found() -> None:
    with SmallCache(16, 16) as cache:
        count = Counting(cache)
        cache.put_on_host(A)
        with testing.hold(cache.cache, "h2d"):
            load = cache.start(A)
            cache.put_behind(load, LONGER)
        assert cache.drain(LONG)
        cache.end(load)
        assert count.missed(LONGER) == {} and count.dropped() == {}


def test_what_invalidate_takes_of_inserts_behind_loads_is_flushed() -> None:
    with SmallCache(16, 16) as cache:
        cache.put_on_host(A)
        count = Counting(cache)
        with testing.hold(cache.cache, "h2d"):
            load = cache.start(A)
            cache.put_behind(load, LONGER)
            cache.invalidate()
        assert cache.drain(LONG)
        cache.end(load)
        assert count.dropped() == {"flushed": 6}
        assert count.missed(LONGER) == {"flushed": 4, "cold": 2}


def test_pages_that_are_wrong_on_host_have_failed_with_all_below_them() -> None:
    with SmallCache(16, 16, verify="all") as cache:
        cache.put_on_host(LONGER)
        count = Counting(cache)
        page = int(cache.match_prefix(LONGER, count=False).host_pages[3])
        testing.corrupt(cache.cache, page, 1, 5)
        load = cache.start(LONGER)
        assert cache.drain(LONG) and load.error is not None
        cache.end(load)
        assert count.dropped() == {"failed": 3}
        assert count.missed(LONGER) == {"failed": 3}


def test_write_back_drops_what_the_host_tier_has_no_room_for() -> None:
    with SmallCache(8, 2, write_policy="write_back") as cache:
        cache.put(A)
        count = Counting(cache)
        cache.evict_device(10**6)
        assert cache.drain(LONG)
        assert count.dropped() == {"evicted": 2}
        assert count.missed(A) == {"evicted": 2}


def test_behind_what_is_not_known_all_is_cold() -> None:
    """Of a chain of pages the first ones were never noted: what is behind them can't be told."""
    with SmallCache(16, 0) as cache:
        count = Counting(cache)
        cache.put(A)
        cache.evict_device(10**6)
        assert count.missed([*B, *A]) == {"cold": 8}
        assert count.missed([*A[:PAGE], *B]) == {"evicted": 1, "cold": 4}


def test_pages_by_state_name_those_in_flight() -> None:
    with SmallCache(16, 16) as cache:
        with testing.hold(cache.cache, "d2h"):
            cache.put(A)
            stats = cache.stats()
            assert (stats.host.owned_pages, stats.host.in_flight_pages) == (4, 4)
            assert (stats.device.owned_pages, stats.device.in_flight_pages) == (0, 0)
        assert cache.drain(LONG)
        cache.evict_device(10**6)
        mine = cache.allocate(3)
        with testing.hold(cache.cache, "h2d"):
            load = cache.start(A)
            stats = cache.stats()
            assert (stats.device.owned_pages, stats.device.in_flight_pages) == (7, 4)
            cache.invalidate()
            stats = cache.stats()
            assert (stats.device.owned_pages, stats.device.in_flight_pages) == (7, 4)
        assert cache.drain(LONG)
        cache.end(load)
        stats = cache.stats()
        assert (stats.device.owned_pages, stats.device.in_flight_pages) == (3, 0)
        cache.free(mine)


def test_the_history_knows_twice_what_both_tiers_have() -> None:
    with SmallCache(16, 16) as cache:
        assert cache.cache._state.history.capacity == 1024
    format = hc.formats.mha(1, 1, 8, dtype="fp16", page_size=PAGE)
    with hc.HiCache(format, device_pages=1000, host_pages=500) as large:
        assert large._state.history.capacity == 3000
