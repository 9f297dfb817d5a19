"""How long ago evicted pages were used last, by tier, in pages."""

from __future__ import annotations

from bisect import bisect_left

from engine import PAGE
from small_cache import LONG, SmallCache

from hicache_nsa import testing
from hicache_nsa.cache.use_times import AGE_BOUNDS
from hicache_nsa.histogram import Histogram

A = list(range(100, 100 + 4 * PAGE))
B = A[: 2 * PAGE] + list(range(500, 500 + 3 * PAGE))


class Timed(SmallCache):
    """A cache with a clock of its own."""

    def __init__(self, *pools: int, **options: object) -> None:
        super().__init__(*pools, **options)
        self.now = 0.0
        testing.use_clock(self.cache, lambda: self.now)

    def ages(self, tier: str) -> Histogram:
        return getattr(self.stats(), tier).eviction_age


def counts(**pages: int) -> list[int]:
    """As a histogram counts them: s40=2 is two pages of 40 seconds."""
    found = [0] * (len(AGE_BOUNDS) + 1)
    for seconds, count in pages.items():
        found[bisect_left(AGE_BOUNDS, float(seconds[1:]))] += count
    return found


def test_each_page_has_the_age_of_its_node() -> None:
    with Timed(16, 0) as cache:
        cache.put(A)
        cache.now = 20.0
        cache.put(B)  # uses the two pages that both share
        cache.now = 60.0
        assert cache.ages("device") == Histogram(AGE_BOUNDS)
        cache.evict_device(10**6)
        assert cache.ages("device").counts == counts(s60=2, s40=5)
        assert cache.ages("device").total == 2 * 60.0 + 5 * 40.0
        assert cache.ages("host").count == 0


def test_a_counted_match_is_a_use_and_another_one_is_none() -> None:
    with Timed(16, 0) as cache:
        cache.put(A)
        cache.now = 100.0
        cache.match_prefix(A[: 3 * PAGE])
        cache.now = 101.0
        cache.match_prefix(A, count=False)
        cache.evict_device(10**6)
        assert cache.ages("device").counts == counts(s101=1, s1=3)


def test_each_tier_has_its_own() -> None:
    with Timed(16, 16) as cache:
        cache.put(A)
        assert cache.drain(LONG)
        cache.now = 2.0
        cache.evict_device(PAGE)
        cache.now = 4000.0
        cache.evict_host(10**6)
        assert cache.ages("device").counts == counts(s2=1)
        assert cache.ages("host").counts == counts(s4000=4)
        assert cache.ages("host").total == 16_000.0


def test_write_back_counts_when_the_pages_go() -> None:
    with Timed(16, 16, write_policy="write_back") as cache:
        cache.put(A)
        with testing.hold(cache.cache, "d2h"):
            cache.evict_device(10**6)
            assert cache.ages("device").count == 0
            cache.now = 7.0
        assert cache.drain(LONG)
        assert cache.ages("device").counts == counts(s7=4)


def test_invalidate_begins_anew_and_forgets_no_age() -> None:
    with Timed(16, 0) as cache:
        cache.put(A)
        cache.now = 50.0
        cache.evict_device(PAGE)
        cache.invalidate()
        cache.now = 55.0
        cache.put(A)
        cache.now = 58.0
        cache.evict_device(10**6)
        assert cache.ages("device").counts == counts(s50=1, s3=4)
