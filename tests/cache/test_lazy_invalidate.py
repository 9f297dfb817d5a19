"""``invalidate``: the old tree is set aside at once, and its pages come free bit by bit.

Page size 4. ``Checked`` calls ``check()`` after every call; what is free without any further call
is read from the pools: ``stats()`` counts what the next calls will free as free.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

import numpy as np
import pytest
from checked_cache import LONG, A, B, Checked, leaves, settle

import hicache_nsa as hc
from hicache_nsa import testing
from hicache_nsa.cache.retired import STEPS


def calls_of(function: Callable[[], object]) -> int:
    """How many Python and C functions ``function`` calls."""
    count = 0

    def profile(_frame: object, event: str, _arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


# -- the call itself -----------------------------------------------------------------------------


def test_it_takes_as_many_operations_for_any_size_of_the_tree() -> None:
    counts = []
    for size in (0, 1, 30, 3000):
        with Checked(3000, 3000) as c:
            leaves(c, size)
            counts.append(calls_of(c.cache.invalidate))
            assert c.unused == (3000 - size, 3000 - size)
    assert len(set(counts[1:])) == 1 and max(counts) < 150, counts


@pytest.mark.parametrize("acks", ["auto", "poll"])
def test_it_does_not_wait_for_copies_in_flight(acks: str) -> None:
    with Checked(12, 12, acks=acks) as c:
        c.put_on_host(A)
        with testing.hold(c.cache, "h2d"), testing.hold(c.cache, "d2h"):
            load = c.start_load(A)
            c.put(B)
            c.invalidate()  # would never return if it waited
            assert (c.hit(A), c.hit(B)) == ((0, 0), (0, 0))
            assert c.device == (4, 0, 4, 4) and c.host == (4, 0, 4, 4)
            assert not load.done() and c.stats().loads_in_flight == 1
            load.release()
        assert c.drain(LONG)
        assert c.unused == (12, 12)
        counters = c.stats()
        assert (counters.saved_tokens, counters.load_back_tokens) == (16, 0)
        assert counters.dropped_tokens == 32


# -- freeing bit by bit --------------------------------------------------------------------------


def test_poll_frees_a_bounded_number_of_pages() -> None:
    with Checked(400, 400) as c:
        leaves(c, 300)
        c.invalidate()
        assert c.unused == (100, 100)
        unused, polls = c.unused, 0
        while c.unused != (400, 400):
            assert c.poll() == 0
            polls += 1
            assert unused < c.unused and c.unused[0] - unused[0] <= STEPS
            unused = c.unused
        assert polls >= 300 // STEPS
        assert c.stats().dropped_tokens == 1200


def test_allocate_takes_what_it_needs_of_the_old_tree() -> None:
    with Checked(600, 0) as c:
        leaves(c, 600)
        c.invalidate()
        assert c.unused == (0, 0)
        first = c.allocate(10)
        assert 0 < c.unused[0] <= STEPS
        rest = c.allocate(590)
        assert len(np.union1d(first, rest)) == 600
        with pytest.raises(hc.OutOfPages, match="0 of 600 are free, 0 evictable"):
            c.allocate(1)
        c.free(first)
        c.free(rest)


def test_the_old_tree_goes_before_anything_of_the_new_one() -> None:
    with Checked(12, 12, spare=0.0) as c:
        c.put(A)
        assert c.drain(LONG)
        c.invalidate()
        c.put(B)
        assert c.drain(LONG)
        c.invalidate()
        c.put(A)
        c.cache.allocate(8)
        assert c.hit(A) == (16, 0) and c.stats().evicted_device_tokens == 0


@pytest.mark.parametrize("looks", [0, 1])
def test_what_is_evicted_does_not_depend_on_what_was_freed_before(looks: int) -> None:
    with Checked(16, 0, spare=0.125) as c:
        c.put(A)
        c.invalidate()
        c.put(B)
        c.put(A)
        for _ in range(looks):
            c.stats()
        assert c.evict_device(4) == 4
        c.cache.allocate(8)
        assert c.hit(B) == (8, 0) and c.hit(A) == (16, 0)
        assert c.stats().evicted_device_tokens == 8


def test_a_save_takes_host_pages_of_the_old_tree() -> None:
    with Checked(16, 4) as c:
        c.put(A)
        assert c.drain(LONG)
        c.invalidate()
        assert c.unused == (12, 0)
        c.put(B)
        assert c.drain(LONG)
        assert c.stats().refused_save_tokens == 0 and c.stats().evicted_host_tokens == 0
        c.reset()
        assert c.hit(B) == (0, 16)


def test_a_load_takes_device_pages_of_the_old_tree() -> None:
    with Checked(8, 16) as c:
        c.put(A)
        assert c.drain(LONG)
        c.invalidate()
        c.put(B)
        assert c.drain(LONG)
        c.reset()
        c.put(A)
        c.invalidate()
        c.put(B)
        assert c.drain(LONG)
        assert c.evict_device(16) == 16
        mine = c.allocate(4)
        with c.start_load(B) as load:
            assert load.wait(LONG) and c.drain(LONG) and c.hit(B) == (16, 0)
        c.free(mine)


def test_numbers_of_out_of_pages() -> None:
    with Checked(16, 16, acks="poll") as c:
        c.put_on_host(A)
        c.put(list(range(200, 208)))
        assert c.drain(LONG)
        with testing.hold(c.cache, "h2d"), testing.hold(c.cache, "d2h"):
            c.start_load(A)
            c.put(B)
            mine = c.allocate(1)
            c.invalidate()
            text = (
                "5 of 16 are free, 2 evictable, 4 locked .1 saves in flight., 1 with callers, 4 in"
            )
            with pytest.raises(hc.OutOfPages, match=text):
                c.allocate(8)
            assert c.unused[0] == 5  # nothing changed
            c.free(c.allocate(7))
        c.free(mine)
        assert c.drain(LONG) and c.unused == (16, 16)


def test_stats_counts_what_is_idle_as_free_and_changes_nothing() -> None:
    with Checked(300, 300) as c:
        leaves(c, 300)
        c.invalidate()
        assert c.device == (300, 0, 0, 0) and c.host == (300, 0, 0, 0)
        assert c.stats().dropped_tokens == 1200 and c.unused == (0, 0)


def test_drain_reset_and_clear_free_everything() -> None:
    for end in ("drain", "reset", "clear"):
        with Checked(300, 300) as c:
            leaves(c, 300)
            c.invalidate()
            getattr(c, end)()
            assert c.unused == (300, 300)
            assert c.stats().dropped_tokens == 1200


# -- copies in flight ----------------------------------------------------------------------------


@pytest.mark.parametrize("acks", ["auto", "poll"])
def test_pages_under_a_save_are_free_after_its_ack_only(acks: str) -> None:
    with Checked(8, 8, acks=acks) as c:
        with testing.hold(c.cache, "d2h"):
            c.put(A)
            c.invalidate()
            for _ in range(3):
                c.poll()
                assert c.device == (4, 0, 4, 0) and c.host == (4, 0, 0, 4)
            with pytest.raises(hc.OutOfPages, match="0 evictable, 4 locked"):
                c.allocate(5)
        assert c.drain(LONG) and c.unused == (8, 8)
        assert c.hit(A) == (0, 0)


@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize("fails", [False, True])
def test_pages_under_a_load_are_free_after_its_ack_only(fails: bool, released: bool) -> None:
    with Checked(8, 8, acks="poll") as c:
        c.put_on_host(A)
        if fails:
            testing.fail_next(c.cache, "h2d", 1)
        with testing.hold(c.cache, "h2d"):
            load = c.start_load(A)
            c.invalidate()
            if released:
                load.release()
            c.poll()
            others = c.allocate(4)
            assert not set(others) & set(load.pages)
            assert c.device == (0, 0, 0, 8) and c.host == (4, 0, 4, 0)
        c.write(B, others)
        if fails:
            with pytest.raises(hc.TransferError):
                load.wait(LONG)
        else:
            assert load.wait(LONG)
        assert c.poll() == 1 and c.unused == (4, 8)
        load.release()
        c.insert(B, others)
        assert c.drain(LONG) and c.hit(B) == (16, 0)
        assert c.stats().failed_loads == fails and c.stats().load_back_tokens == 0
        assert c.device == (4, 4, 0, 0)


def test_a_void_save_that_fails_is_counted() -> None:
    with Checked(8, 8) as c:
        with testing.hold(c.cache, "d2h"):
            testing.fail_next(c.cache, "d2h", 2)
            c.put(A)
            c.invalidate()
        assert c.drain(LONG) and c.unused == (8, 8)
        assert c.stats().failed_saves == 1 and c.stats().dropped_tokens == 16


def test_a_page_that_two_saves_read_waits_for_both() -> None:
    with Checked(8, 16, acks="poll") as c:
        testing.fail_next(c.cache, "d2h")
        first = c.put(A[:8])
        pages = c.insert(A, [*first.pages, *c.allocate(2)]).pages
        settle(c, "d2h")
        assert c.poll(limit=1) == 1 and c.stats().failed_saves == 1
        c.insert(A, pages)  # saves all of it, the second save's pages again
        assert c.stats().saves_in_flight == 2
        settle(c, "d2h")
        c.invalidate()
        assert c.device == (4, 0, 4, 0) and c.host == (10, 0, 0, 6)
        assert c.poll(limit=1) == 1
        assert c.device == (4, 0, 4, 0) and c.host == (12, 0, 0, 4)
        assert c.poll(limit=1) == 1 and c.unused == (8, 16)


def test_acks_come_in_the_same_order_and_number_as_ever() -> None:
    with Checked(16, 16, acks="poll") as c:
        with testing.hold(c.cache, "d2h"):
            c.put(A)
            c.invalidate()
            c.put(A)
            c.put(B)
        settle(c, "d2h")
        assert c.poll(limit=1) == 1
        assert c.stats().saved_tokens == 0 and c.stats().saves_in_flight == 2
        assert c.poll(limit=1) == 1
        assert c.stats().saved_tokens == 16
        c.poll()
        c.reset()
        assert c.hit(A) == (0, 16) and c.hit(B) == (0, 16)


@pytest.mark.parametrize("direction", ["d2h", "h2d"])
def test_allocate_waits_for_the_void_copies_it_needs(direction: str) -> None:
    with Checked(8, 8) as c:
        c.put_on_host(A)
        with hc.CpuStream() as stream:
            gate = threading.Event()
            stream.enqueue(gate.wait, LONG)
            if direction == "h2d":
                busy = c.allocate(8)
                c.free(busy, stream=stream)
                c.start_load(A)
            else:
                pages = c.allocate(4)
                c.insert(B, pages, stream=stream)
            c.invalidate()
            opening = threading.Timer(0.05, gate.set)
            opening.start()
            mine = c.allocate(8)
            assert gate.is_set() and len(mine) == 8
            opening.join()
        c.free(mine)
        assert c.drain(LONG) and c.unused == (8, 8)
