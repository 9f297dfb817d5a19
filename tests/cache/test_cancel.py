"""LoadBack.cancel: what nobody wants any more is not published. Page size 4."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest
from small_cache import LONG, SmallCache

import hicache_nsa as hc
from hicache_nsa import testing

A = list(range(8))
LONGER = [*A, 50, 51, 52, 53]
OTHER = [*A[:4], 9, 9, 9, 9]


def cancelled(c: SmallCache) -> int:
    count: int = c.stats().cancelled_loads
    return count


def test_a_cancelled_load_brings_nothing_and_its_pages_stay_until_the_ack() -> None:
    with SmallCache(4, 4) as c:
        c.put_on_host(A)
        with testing.hold(c.cache, "h2d"):
            load = c.start(A)
            c.end(load, "cancel")
            assert cancelled(c) == 1
            match = c.match_prefix(A)
            assert (match.host_tokens, match.load_tokens) == (8, 8)  # loadable again
            assert c.device == (2, 0, 0, 2) and c.stats().loads_in_flight == 1
            assert c.evict_device(8) == c.evict_host(8) == 0  # the copy reads and writes
            others = c.allocate(2)
            assert not set(others) & set(load.pages)
            with pytest.raises(hc.OutOfPages, match="2 in loads"):
                c.allocate(1)
        assert c.drain(LONG)
        assert c.device == (2, 0, 0, 2) and c.host == (2, 2, 0, 0) and c.locks() == {0}
        assert c.hit(A) == (0, 8)
        stats = c.stats()
        assert (stats.load_back_tokens, stats.failed_loads, stats.cancelled_loads) == (0, 0, 1)
        c.free(others)
        again = c.start(A)
        assert again.wait(LONG) and c.hit(A) == (8, 0)
        c.end(again)


def test_it_is_discarded_even_if_the_copy_has_run_already() -> None:
    with SmallCache(4, 4, acks="poll") as c:
        c.put_on_host(A)
        load = c.start(A)
        assert load.wait(LONG) and load.done()
        c.end(load, "cancel")
        assert c.hit(A) == (0, 8) and c.device == (2, 0, 0, 2)
        assert c.poll() == 1
        assert c.hit(A) == (0, 8) and c.device == (4, 0, 0, 0) and cancelled(c) == 1


def test_after_the_ack_cancel_is_release() -> None:
    with SmallCache(4, 4, acks="poll") as c:
        c.put_on_host(A)
        load = c.start(A)
        assert load.wait(LONG) and c.poll() == 1
        assert c.device == (2, 0, 2, 0)
        c.end(load, "cancel")
        assert c.hit(A) == (8, 0) and c.device == (2, 2, 0, 0) and cancelled(c) == 0


@pytest.mark.parametrize("early", [True, False], ids=["copy held", "copy run"])
def test_the_outcome_does_not_depend_on_when_the_copy_runs(early: bool) -> None:
    """The same calls on two ranks, whose copies run at different times."""
    pictures = []
    for held in (early, not early):
        with SmallCache(8, 8, acks="poll") as c:
            c.put_on_host(LONGER)
            gate = testing.hold(c.cache, "h2d")
            if held:
                gate.__enter__()
            first, second = c.start(A), c.start(LONGER)
            if not held:
                c.settle()
            c.end(second, "cancel")
            third = c.start(LONGER)
            c.end(third, "cancel")
            c.end(first, "cancel")
            pictures.append(c.picture())
            if held:
                gate.__exit__(None, None, None)
            c.settle()
            pictures.append((c.poll(1), c.picture()))
            assert c.drain(LONG)
            pictures.append((c.picture(), cancelled(c)))
            assert c.hit(LONGER) == (0, 12) and c.device == (8, 0, 0, 0)
    assert pictures[:3] == pictures[3:]


@pytest.mark.parametrize(
    ("first", "last", "hit", "count"),
    [
        ("cancel", "release", (8, 0), 0),
        ("release", "cancel", (0, 8), 1),
        ("cancel", "cancel", (0, 8), 1),
        ("release", "release", (8, 0), 0),
    ],
)
def test_of_those_who_share_a_load_the_last_one_decides(
    first: str, last: str, hit: tuple[int, int], count: int
) -> None:
    with SmallCache(4, 4) as c:
        c.put_on_host(A)
        with testing.hold(c.cache, "h2d"):
            one, two = c.start(A), c.start(A)
            assert c.loads_submitted() == 1
            c.end(one, first)
            assert cancelled(c) == 0 and c.match_prefix(A).load_tokens == 0  # still to be joined
            c.end(two, last)
            assert cancelled(c) == count
        assert c.drain(LONG) and c.hit(A) == hit
        assert c.locks() == {0} and c.device[3] == 0


def test_who_did_not_cancel_gets_the_bytes() -> None:
    with SmallCache(8, 8) as c:
        c.put_on_host(LONGER)
        with testing.hold(c.cache, "h2d"):
            one, two = c.start(A), c.start(LONGER)
            c.end(one, "cancel")
        assert two.wait(LONG) and c.holds(two.pages, LONGER)
        assert c.drain(LONG) and c.hit(LONGER) == (12, 0)
        c.end(two)
        assert cancelled(c) == 0


def test_it_is_idempotent_and_a_no_op_after_release_and_the_other_way_round() -> None:
    with SmallCache(4, 4) as c:
        c.put_on_host(A)
        with testing.hold(c.cache, "h2d"):
            load = c.start(A)
            for how in ("cancel", "cancel", "release"):
                c.end(load, how)
            other = c.start(A)
            for how in ("release", "cancel", "cancel"):
                c.end(other, how)
            assert cancelled(c) == 1
        assert c.drain(LONG) and c.hit(A) == (8, 0)
        assert c.locks() == {0} and c.device == (2, 2, 0, 0)


@pytest.mark.parametrize("flush", ["reset", "clear", "invalidate"])
def test_after_a_flush_it_is_a_no_op(flush: str) -> None:
    with SmallCache(4, 4) as c:
        c.put_on_host(A)
        with testing.hold(c.cache, "h2d"):
            gone, old = c.start(A), None
            c.end(gone, "cancel")
            old = c.start(A)
        getattr(c, flush)()
        assert c.drain(LONG)  # takes in both
        assert c.device == (4, 0, 0, 0)
        if flush != "reset":
            c.put_on_host(A)
        with testing.hold(c.cache, "h2d"):
            new = c.start(A)
            c.end(old, "cancel")
            c.end(gone, "cancel")
            assert cancelled(c) == 1
        assert c.drain(LONG) and c.hit(A) == (8, 0) and c.locks() == {1}
        c.end(new)


def test_it_is_loaded_anew_while_the_cancelled_copy_is_in_flight() -> None:
    with SmallCache(4, 4, acks="poll") as c:
        c.put_on_host(A)
        with testing.hold(c.cache, "h2d"):
            gone = c.start(A)
            c.end(gone, "cancel")
            new = c.start(A)
            assert not set(gone.pages) & set(new.pages) and c.loads_submitted() == 2
            joined = c.start(A)
            assert joined.pages.tolist() == new.pages.tolist()
        c.settle()
        assert c.poll(1) == 1  # the cancelled one
        assert c.hit(A) == (0, 8) and c.match_prefix(A).load_tokens == 0
        assert c.device == (2, 0, 0, 2)
        assert c.poll(1) == 1
        assert c.hit(A) == (8, 0) and c.match_prefix(A).device_pages.tolist() == new.pages.tolist()
        c.end(new)
        c.end(joined, "cancel")
        assert c.device == (2, 2, 0, 0) and cancelled(c) == 1


def test_a_node_is_split_below_and_inside_a_cancelled_load() -> None:
    with SmallCache(12, 12) as c:
        c.put_on_host(LONGER)
        with testing.hold(c.cache, "h2d"):
            load = c.start(LONGER)
            c.match_prefix(LONGER[:8])  # splits while it loads
            c.end(load, "cancel")
            c.put(OTHER)  # splits while it is cancelled, adopts page 0
            assert c.hit(LONGER) == (4, 8)
            new = c.start(LONGER, max_tokens=4)
            assert new.tokens == 4
        assert c.drain(LONG) and c.hit(LONGER) == (8, 4) and c.hit(OTHER) == (8, 0)
        c.end(new)
        assert c.locks() == {0} and c.device[3] == 0


def test_pages_computed_for_a_cancelled_part_are_adopted() -> None:
    with SmallCache(8, 4) as c:
        c.put_on_host(A)
        with testing.hold(c.cache, "h2d"):
            load = c.start(A)
            c.end(load, "cancel")
            mine = c.put(A).pages.tolist()
            assert c.hit(A) == (8, 0) and not set(mine) & set(load.pages)
        assert c.drain(LONG)
        assert c.match_prefix(A).device_pages.tolist() == mine and c.device == (6, 2, 0, 0)


def test_a_copy_that_fails_after_it_was_cancelled() -> None:
    with SmallCache(4, 4) as c:
        c.put_on_host(A)
        with testing.hold(c.cache, "h2d"):
            testing.fail_next(c.cache, "h2d", 1)
            load = c.start(A)
            c.end(load, "cancel")
        assert c.drain(LONG) and load.error is not None
        assert (c.stats().failed_loads, cancelled(c)) == (1, 1)
        assert c.hit(A) == (0, 8) and c.device == (4, 0, 0, 0) and c.locks() == {0}


def test_a_failed_load_is_not_cancelled_again() -> None:
    with SmallCache(4, 4) as c:
        c.put_on_host(A)
        testing.fail_next(c.cache, "h2d")
        load = c.start(A)
        assert c.drain(LONG)
        c.end(load, "cancel")
        assert (c.stats().failed_loads, cancelled(c)) == (1, 0) and c.device == (4, 0, 0, 0)


def test_the_next_copy_into_its_pages_waits_for_the_stream_that_used_them() -> None:
    gate = threading.Event()
    with SmallCache(2, 4, acks="poll") as c, hc.CpuStream() as stream:
        c.put_on_host(A)
        load = c.start(A)
        assert load.wait(LONG)
        stream.enqueue(gate.wait, LONG)  # a forward that still reads the pages
        load.cancel(stream)
        assert c.poll() == 1 and c.device == (2, 0, 0, 0)
        again = c.start(A)
        assert set(again.pages) == set(load.pages)
        assert not again.wait(0.05)
        gate.set()
        assert again.wait(LONG) and c.holds(again.pages, A)
        c.end(again)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("acks", ["auto", "poll"])
def test_random_users_of_shared_loads(seed: int, acks: str) -> None:
    """Releases, cancels, failures, holds and evictions in any order leave nothing behind."""
    rng = random.Random(seed)
    prompts = [[*A[: 4 * rng.randrange(1, 3)], *[50 + i % 2] * 8, *[60 + i] * 4] for i in range(3)]
    with SmallCache(16, 24, acks=acks) as c:
        c.put_on_host(*prompts)
        loads: list[hc.LoadBack] = []
        gate: Any = None
        for _ in range(120):
            what = rng.randrange(7)
            if what <= 1 and len(loads) < 6:
                match = c.match_prefix(rng.choice(prompts))
                load = c.load_back(match, max_tokens=rng.choice([None, 4, 8, 100]))
                loads += [] if load is None else [load]
            elif what <= 3 and loads:
                load = loads.pop(rng.randrange(len(loads)))
                if load.done() and load.error is None:
                    c.hit(rng.choice(prompts))
                c.end(load, rng.choice(["cancel", "cancel", "release"]))
            elif what == 4:
                c.poll(rng.choice([None, 1]))
            elif what == 5:
                c.evict_device(rng.randrange(20))
            elif gate is None:
                gate = testing.hold(c.cache, "h2d")
                gate.__enter__()
            else:
                gate.__exit__(None, None, None)
                gate = None
            for tokens in prompts:
                assert sum(c.hit(tokens)) == len(tokens)  # the host copies never go
        if gate is not None:
            gate.__exit__(None, None, None)
        for load in loads:
            c.end(load, "cancel")
        assert c.drain(LONG)
        assert c.locks() == {0} and c.device[2:] == (0, 0)
