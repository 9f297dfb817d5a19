"""LoadBack.cancel with inserts behind the load, and loads below it. Page size 4."""

from __future__ import annotations

import pytest
from small_cache import LONG, SmallCache

from hicache_nsa import testing

A = list(range(8))
LONGER = [*A, 50, 51, 52, 53]


def cancelled(c: SmallCache) -> int:
    count: int = c.stats().cancelled_loads
    return count


# -- inserts behind it ---------------------------------------------------------------------------


@pytest.mark.parametrize("lock", [None, True])
@pytest.mark.parametrize("tokens", [A, LONGER], ids=["its own pages", "and one behind"])
def test_a_load_with_an_insert_behind_it_is_kept(tokens: list[int], lock: bool | None) -> None:
    with SmallCache(8, 8) as c:
        c.put_on_host(A)
        with testing.hold(c.cache, "h2d"):
            load = c.start(A)
            result = c.put_behind(load, tokens, lock=lock)
            if result.handle:
                c.unlock(result.handle)
            c.end(load, "cancel")
            assert cancelled(c) == 0
        assert c.drain(LONG) and c.hit(tokens) == (len(tokens), 0)
        assert c.locks() == {0} and c.device[3] == 0


def test_an_insert_behind_an_insert_keeps_it_too() -> None:
    longest = [*LONGER, 60, 61, 62, 63]
    with SmallCache(8, 8) as c:
        c.put_on_host(A)
        with testing.hold(c.cache, "h2d"):
            load = c.start(A)
            behind = c.put_behind(load, LONGER, lock=True)
            own = c.compute(longest, 3)
            last = c.insert(longest, [*behind.pages, *own], lock=behind.handle)
            c.end(load, "cancel")
        assert c.drain(LONG) and c.hit(longest) == (16, 0) and cancelled(c) == 0
        c.unlock(last.handle)
        assert c.locks() == {0} and c.device == (4, 4, 0, 0)


def test_an_insert_on_the_pages_of_a_cancelled_load_is_dropped() -> None:
    with SmallCache(8, 8) as c:
        c.put_on_host(A)
        with testing.hold(c.cache, "h2d"):
            load = c.start(A)
            c.end(load, "cancel")
            result = c.put_behind(load, LONGER, lock=True)
            assert result.inserted_tokens == 4 and c.hit(LONGER) == (0, 8)
        assert c.drain(LONG) and c.hit(LONGER) == (0, 8)
        assert c.device == (5, 0, 0, 3)  # the handle keeps them
        c.unlock(result.handle)
        assert c.device == (8, 0, 0, 0) and c.locks() == {0}


# -- loads below it ------------------------------------------------------------------------------


def test_a_load_that_is_wanted_below_keeps_the_one_above() -> None:
    """The lower one was released, not cancelled: it is to land, and needs what is above it."""
    with SmallCache(8, 8) as c:
        c.put_on_host(LONGER)
        with testing.hold(c.cache, "h2d"):
            upper, lower = c.start(A), c.start(LONGER)
            c.end(lower)
            c.end(upper, "cancel")
            assert cancelled(c) == 0
        assert c.drain(LONG) and c.hit(LONGER) == (12, 0) and c.locks() == {0}


def test_a_load_below_it_that_was_cancelled_does_not_keep_it() -> None:
    with SmallCache(8, 8) as c:
        c.put_on_host(LONGER)
        with testing.hold(c.cache, "h2d"):
            upper, lower = c.start(A), c.start(LONGER)
            c.end(lower, "cancel")
            assert cancelled(c) == 1 and c.match_prefix(LONGER).load_tokens == 4
            c.end(upper, "cancel")
            assert cancelled(c) == 2 and c.match_prefix(LONGER).load_tokens == 12
        assert c.drain(LONG) and c.hit(LONGER) == (0, 12) and c.device == (8, 0, 0, 0)


def test_one_cancel_ends_all_that_it_was_the_last_user_of() -> None:
    with SmallCache(8, 8) as c:
        c.put_on_host(LONGER)
        with testing.hold(c.cache, "h2d"):
            upper, lower = c.start(A), c.start(LONGER)
            c.end(upper)
            c.end(lower, "cancel")
            assert cancelled(c) == 2
        assert c.drain(LONG) and c.hit(LONGER) == (0, 12)
        assert c.locks() == {0} and c.device == (8, 0, 0, 0)


def test_the_upper_part_lands_where_only_the_lower_one_was_cancelled() -> None:
    with SmallCache(8, 8) as c:
        c.put_on_host(LONGER)
        with testing.hold(c.cache, "h2d"):
            upper, lower = c.start(A), c.start(LONGER)
            c.end(lower, "cancel")
            below = c.start(LONGER)  # joins the upper one, copies the lower page anew
            assert below.pages[:2].tolist() == upper.pages.tolist()
            assert below.pages[2] != lower.pages[2]
            c.end(upper, "cancel")
            assert cancelled(c) == 1  # the new one needs it
        assert below.wait(LONG) and c.holds(below.pages, LONGER)
        assert c.drain(LONG) and c.hit(LONGER) == (12, 0)
        c.end(below)
        assert c.locks() == {0} and c.device == (5, 3, 0, 0)


def test_a_load_below_a_failed_one_ends_as_before() -> None:
    with SmallCache(8, 8, acks="poll") as c:
        c.put_on_host(LONGER)
        with testing.hold(c.cache, "h2d"):
            testing.fail_next(c.cache, "h2d")
            upper, lower = c.start(A), c.start(LONGER)
        c.settle()
        assert c.poll(1) == 1  # the failed one; the lower one is disowned now, and not taken in
        c.end(lower, "cancel")
        c.end(upper, "cancel")
        assert cancelled(c) == 0
        assert c.poll() == 1 and c.hit(LONGER) == (0, 12) and c.device == (8, 0, 0, 0)


def test_a_load_back_without_a_copy_of_its_own_is_released() -> None:
    with SmallCache(4, 4) as c:
        c.put_on_host(A)
        match = c.match_prefix(A)
        first = c.start(A)
        assert first.wait(LONG) and c.poll() == 1
        landed = c.load_back(match)
        c.end(landed, "cancel")
        assert cancelled(c) == 0 and c.device == (2, 0, 2, 0)
        c.end(first, "cancel")
        assert c.hit(A) == (8, 0) and c.device == (2, 2, 0, 0)


def test_a_part_is_cancelled_like_a_whole() -> None:
    with SmallCache(8, 8) as c:
        c.put_on_host(LONGER)
        with testing.hold(c.cache, "h2d"):
            part = c.start(LONGER, max_tokens=4)
            rest = c.start(LONGER)
            c.end(part, "cancel")
            assert cancelled(c) == 0
            c.end(rest, "cancel")
            assert cancelled(c) == 2
        assert c.drain(LONG) and c.hit(LONGER) == (0, 12) and c.device == (8, 0, 0, 0)
