"""A copy that can't even be submitted: nothing half, no lock left, and ranks can agree on it."""

from __future__ import annotations

import pytest
from engine import PAGE
from small_cache import LONG, SmallCache

from hicache_nsa import testing

TOKENS = list(range(1, 4 * PAGE + 1))
HEAD = TOKENS[: 2 * PAGE]
OTHER = list(range(1000, 1000 + 4 * PAGE))


class Refused:
    """While it lasts the engine of the cache takes no copy."""

    def __init__(self, small: SmallCache) -> None:
        self._engine = small.cache.engine

    def __enter__(self) -> None:
        def refuse(*args, **options):
            raise MemoryError("no memory for one more copy")

        self._engine.submit = refuse

    def __exit__(self, *exc: object) -> None:
        del self._engine.submit


@pytest.mark.parametrize("policy", ["write_through", "write_through_selective"])
def test_an_insert_takes_its_pages_and_the_save_counts_as_failed(policy):
    with SmallCache(8, 8, write_policy=policy, write_threshold=1) as small:
        small.put(HEAD)
        assert small.drain(LONG)
        pages = small.compute(TOKENS)
        with Refused(small):
            result = small.insert(TOKENS, pages, lock=True)
        assert (result.duplicate_tokens, result.inserted_tokens) == (2 * PAGE, 2 * PAGE)
        small.unlock(result.handle)
        assert small.device == (4, 4, 0, 0)
        assert small.host == (6, 2, 0, 0)
        assert small.stats().failed_saves == 1
        small.insert(TOKENS, result.pages)  # the next use tries again
        assert small.drain(LONG)
        assert small.host == (4, 4, 0, 0)


def test_an_insert_behind_a_load_leaves_no_lock():
    with SmallCache(8, 8, acks="poll") as small:
        small.put_on_host(HEAD)
        with testing.hold(small.cache, "h2d"):
            load = small.start(HEAD)
            small.put_behind(load, TOKENS)
        small.settle()
        with Refused(small):
            assert small.poll() == 1
        assert load.acked and load.error is None
        small.end(load)
        assert small.poll() == 1
        assert small.stats().failed_saves == 1
        assert small.locks() == {0}
        assert small.hit(TOKENS) == (4 * PAGE, 0)


def test_what_was_to_leave_the_device_stays():
    with SmallCache(8, 8, write_policy="write_back") as small:
        small.put(TOKENS)
        with Refused(small):
            small.evict_device(4 * PAGE)
        assert small.hit(TOKENS) == (4 * PAGE, 0)
        assert small.device == (4, 4, 0, 0)
        assert small.host == (8, 0, 0, 0)


def test_allocate_goes_on_without_saves():
    with SmallCache(8, 8, write_policy="write_back") as small:
        small.put(TOKENS)
        small.put(OTHER)
        with Refused(small):
            assert len(small.allocate(6)) == 6


def test_other_ranks_can_agree_that_it_failed():
    with SmallCache(8, 8, acks="poll") as small:
        with Refused(small):
            small.put(TOKENS)
        assert small.in_flight == 1
        assert small.ready() == (1, 0)
        assert small.poll(1, sound=0) == 1
        assert small.device == (4, 4, 0, 0)
        assert small.stats().failed_saves == 1


def test_a_load_that_cannot_start_changes_nothing():
    with SmallCache(8, 8) as small:
        small.put_on_host(TOKENS)
        match = small.match_prefix(TOKENS)
        before = small.picture()
        with Refused(small), pytest.raises(MemoryError):
            small.load_back(match)
        assert small.picture() == before
        small.end(small.start(TOKENS))
