"""``invalidate``: the old tree is set aside at once, and its pages come free bit by bit.

Page size 4. ``Checked`` calls ``check()`` after every call; what is free without any further call
is read from the pools, since ``stats()`` frees everything first.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from engine import Engine, device_holds, fill, host_holds, identity

import hicache_nsa as hc
from hicache_nsa import testing
from hicache_nsa.cache.retired import STEPS

PAGE = 4
LONG = 30.0
A, B = list(range(16)), list(range(100, 116))


class Checked:
    """A cache that is checked after every call."""

    def __init__(self, device_pages: int, host_pages: int, **options: Any) -> None:
        fmt = hc.formats.dsa(2, page_size=PAGE, kv_lora_rank=128, rope_head_dim=4)
        self.cache = hc.HiCache(fmt, device_pages=device_pages, host_pages=host_pages, **options)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.cache, name)
        if not callable(value) or isinstance(value, type):
            return value

        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return value(*args, **kwargs)
            finally:
                self.cache.check()

        return call

    def __enter__(self) -> Checked:
        return self

    def __exit__(self, *exc: object) -> None:
        self.cache.close()

    def put(self, tokens: list[int], **options: Any) -> hc.InsertResult:
        """Compute every whole page of ``tokens`` and insert them."""
        pages = self.allocate(len(tokens) // PAGE)
        self.write(tokens, pages)
        return self.insert(tokens, pages, **options)

    def write(self, tokens: list[int], pages: Any, first: int = 0) -> None:
        for index, page in enumerate(pages, start=first):
            fill(self.cache, page, identity(None, np.array(tokens), index))

    def put_on_host(self, tokens: list[int]) -> None:
        self.put(tokens)
        assert self.drain(LONG)
        assert self.evict_device(len(tokens)) == len(tokens)

    def start_load(self, tokens: list[int]) -> hc.LoadBack:
        load = self.load_back(self.match_prefix(tokens))
        assert load is not None
        return load

    def hit(self, tokens: list[int]) -> tuple[int, int]:
        """Tokens that match by tier; every page of them has its own bytes."""
        match = self.match_prefix(tokens, count=False)
        for index, page in enumerate(match.device_pages):
            assert device_holds(self.cache, page, identity(None, np.array(tokens), index))
        for index, page in enumerate(match.host_pages, start=len(match.device_pages)):
            assert host_holds(self.cache, page, identity(None, np.array(tokens), index))
        return match.device_tokens, match.host_tokens

    @property
    def unused(self) -> tuple[int, int]:
        """Pages that are free in each tier at this moment."""
        return self.cache.device_pool.free_pages, self.cache.host_pool.free_pages

    @property
    def device(self) -> tuple[int, int, int, int]:
        """free, evictable, locked, owned pages once all that can be freed is."""
        return _states(self.stats().device)

    @property
    def host(self) -> tuple[int, int, int, int]:
        return _states(self.stats().host)


def _states(tier: hc.TierStats) -> tuple[int, int, int, int]:
    return tier.free_pages, tier.evictable_pages, tier.locked_pages, tier.owned_pages


def leaves(cache: Checked, count: int) -> None:
    """``count`` prompts of one page each, all saved."""
    for i in range(count):
        cache.cache.insert([i, 0, 0, 1], cache.cache.allocate(1))
    assert cache.drain(LONG)


def settle(cache: Checked, direction: str) -> None:
    """Wait until no copy runs, without taking any in."""
    limit = time.monotonic() + LONG
    while cache.cache.engine.in_flight(direction):
        assert time.monotonic() < limit
        time.sleep(0.001)


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
    assert len(set(counts)) == 1 and counts[0] < 150, counts


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


def test_stats_drain_reset_and_clear_free_everything() -> None:
    for end in ("stats", "drain", "reset", "clear"):
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


# -- what belonged to the old tree ---------------------------------------------------------------


def test_locks_matches_and_loads_of_before_are_void() -> None:
    with Checked(16, 16) as c:
        c.put_on_host(B)
        handle = c.put(A, lock=True).handle
        match = c.match_prefix(B)
        load = c.start_load(B)
        assert load.wait(LONG) and c.drain(LONG)
        c.invalidate()
        assert c.device == (16, 0, 0, 0)
        for call in (lambda: c.lock(match), lambda: c.load_back(match)):
            with pytest.raises(hc.StaleHandleError):
                call()
        mine = c.allocate(16)
        for _ in range(2):
            c.unlock(handle)
            load.release()
        assert c.device == (0, 0, 0, 16)
        with pytest.raises(hc.StaleHandleError):
            c.insert(A, mine[:4], lock=handle)
        c.free(mine)


def test_pages_of_the_old_tree_are_not_taken_from_callers() -> None:
    with Checked(16, 16) as c:
        c.put_on_host(B)
        cached = c.put(A).pages
        assert c.drain(LONG)
        late = c.allocate(4)
        with testing.hold(c.cache, "h2d"):
            load = c.start_load(B)
            c.invalidate()
            for pages in (cached, load.pages):
                with pytest.raises(ValueError, match="given up by invalidate"):
                    c.insert(A, pages)
                with pytest.raises(ValueError, match="can't be freed"):
                    c.free(pages)
            with pytest.raises(hc.StaleHandleError, match="invalidate"):
                c.insert(A, late)
        c.free(late)
        assert c.drain(LONG) and c.unused == (16, 16)


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("acked", [False, True])
@pytest.mark.parametrize("lock", [False, True])
def test_inserts_behind_a_load_are_freed_once(lock: bool, acked: bool, fails: bool) -> None:
    with Checked(16, 16, acks="poll") as c:
        c.put_on_host(A)
        if fails:
            testing.fail_next(c.cache, "h2d")
        longer = [*A, *B[:8]]
        with testing.hold(c.cache, "h2d"):
            load = c.start_load(A)
            own = c.allocate(2)
            c.write(longer, own, first=4)
            result = c.insert(longer, [*load.pages, *own], lock=lock or None)
            if not acked:
                c.invalidate()
                assert c.device == (12, 0, 0, 4)
        assert c.drain(LONG)
        if acked:
            kept = 4 + 2 * lock if fails else 0  # with the load, and for the handle
            assert c.device[3] == kept
            c.invalidate()
        assert c.device == (16, 0, 0, 0) and c.host == (16, 0, 0, 0)
        if result.handle is not None:
            c.unlock(result.handle)
        load.release()
        assert c.unused == (16, 16)
        assert c.stats().dropped_tokens == 24 and c.stats().failed_loads == fails


def test_surplus_pages_of_a_load_are_freed_once() -> None:
    with Checked(16, 16, acks="poll") as c:
        c.put_on_host(A)
        with testing.hold(c.cache, "h2d"):
            load = c.start_load(A)
            c.put(A)  # adopted: the load's own pages are surplus
        assert load.wait(LONG) and c.drain(LONG)
        assert c.device[3] == 4
        c.invalidate()
        assert c.unused == (8, 12)
        c.poll()
        assert c.unused == (16, 16)
        load.release()
        assert c.device == (16, 0, 0, 0)


def test_given_up_pages_wait_for_what_was_queued_and_for_nothing_later() -> None:
    with hc.CpuStream() as stream, hc.CpuStream() as other:
        cache = Checked(4, 16, stream=stream)
        gate, later = threading.Event(), threading.Event()
        right: list[bool] = []
        try:
            pages = cache.put(A).pages
            assert cache.drain(LONG)
            stream.enqueue(gate.wait, LONG)
            idents = [identity(None, np.array(A), i) for i in range(4)]
            stream.enqueue(
                lambda: right.extend(
                    device_holds(cache.cache, p, i) for p, i in zip(pages, idents, strict=True)
                )
            )
            cache.invalidate()
            stream.enqueue(later.wait, LONG)
            cache.insert(B[:8], cache.allocate(2), stream=other)
            assert not cache.drain(0.05), "the save did not wait for the stream"
            gate.set()
            assert cache.drain(LONG), "the save waits for later work"
            assert right == [True] * 4 and not later.is_set()
        finally:
            gate.set()
            later.set()
            cache.cache.close()


# -- several in a row ----------------------------------------------------------------------------


def test_several_in_a_row_with_copies_of_each_in_flight() -> None:
    prompts = [list(range(start, start + 8)) for start in (0, 100, 200)]
    with Checked(8, 8, acks="poll") as c:
        with testing.hold(c.cache, "d2h"):
            for prompt in prompts:
                c.put(prompt)
                c.invalidate()
                c.invalidate()
            assert c.device == (2, 0, 6, 0) and c.host == (2, 0, 0, 6)
            assert c.stats().saves_in_flight == 3
        settle(c, "d2h")
        for left in (4, 2, 0):
            assert c.poll(limit=1) == 1
            assert c.unused == (8 - left, 8 - left)
        assert c.stats().dropped_tokens == 24


@pytest.mark.parametrize("flush", ["reset", "clear"])
def test_a_flush_after_it_waits_for_copies_of_the_old_tree(flush: str) -> None:
    with Checked(8, 8) as c:
        ended: list[object] = []
        with testing.hold(c.cache, "d2h"):
            c.put(A)
            c.invalidate()
            c.put(B)
            thread = threading.Thread(target=lambda: ended.append(getattr(c.cache, flush)()))
            thread.start()
            thread.join(0.05)
            assert not ended
        thread.join(LONG)
        c.check()
        assert len(ended) == 1
        kept = 16 if flush == "reset" else 0
        assert c.unused == (8, 8 - kept // PAGE) and c.hit(B) == (0, kept) and c.hit(A) == (0, 0)


def test_close_with_void_copies_and_pages_left() -> None:
    c = Checked(300, 300)
    leaves(c, 200)
    with testing.hold(c.cache, "d2h"):
        c.put(A)
        c.invalidate()
        c.cache.close()
    with pytest.raises(hc.HiCacheError, match="closed"):
        c.cache.invalidate()


# -- random work ---------------------------------------------------------------------------------


class Impatient(Engine):
    """Flushes are invalidates, and copies in flight stay there."""

    def flush(self) -> None:
        held = self.cache.stats()
        before = held.loads_in_flight + held.saves_in_flight
        self.cache.invalidate()
        self.cache.check()
        if self.rng.random() < 0.3:
            self.cache.invalidate()
            self.cache.check()
        if all(self.is_held.values()):
            now = self.cache.stats()
            assert now.loads_in_flight + now.saves_in_flight == before
        self.bad_loads.clear()
        assert not list(self.cache.tree.nodes())
        for request in list(self.requests):
            if self.rng.random() < 0.5 and request.handle is not None:
                self.cache.unlock(request.handle)
            request.handle = None
            self.close_request(request)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("device_pages", "host_pages", "acks"), [(24, 40, "auto"), (16, 8, "poll"), (40, 12, "poll")]
)
def test_random_work(seed: int, device_pages: int, host_pages: int, acks: str) -> None:
    engine = Impatient(seed, device_pages=device_pages, host_pages=host_pages, acks=acks)
    for _ in range(400):
        engine.step()
        if engine.rng.random() < 0.05:
            engine.flush()
            engine.cache.check()
    engine.end()


@pytest.mark.parametrize("acks", ["auto", "poll"])
def test_threads(acks: str) -> None:
    cache = Checked(48, 40, acks=acks).cache
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        rng = random.Random(seed)
        try:
            for _ in range(150):
                one_request(cache, rng)
        except BaseException as error:
            errors.append(error)

    def disturb() -> None:
        rng = random.Random(99)
        try:
            for _ in range(150):
                rng.choice([cache.invalidate, cache.invalidate, cache.poll, cache.check])()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    threads.append(threading.Thread(target=disturb))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors, errors
    cache.invalidate()
    assert cache.drain(LONG)
    cache.check()
    assert (cache.device_pool.free_pages, cache.host_pool.free_pages) == (48, 40)
    cache.close()


def one_request(cache: hc.HiCache, rng: random.Random) -> None:
    tokens = np.repeat([rng.randrange(2) for _ in range(rng.randrange(1, 6))], PAGE)
    pages = cache.allocate(0)
    try:
        match = cache.match_prefix(tokens)
        handle = cache.lock(match)
        load = cache.load_back(match)
        if load is not None:
            load.wait(LONG)
            load.release()
        cache.unlock(handle)
        pages = cache.allocate(len(tokens) // PAGE)
        for index, page in enumerate(pages):
            fill(cache, page, identity(None, tokens, index))
        cache.insert(tokens, pages)
    except hc.OutOfPages:
        cache.poll()
    except hc.StaleHandleError:
        if len(pages):
            cache.free(pages)
