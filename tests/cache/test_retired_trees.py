"""What belonged to a tree that ``invalidate`` set aside, and several of them in a row."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from checked_cache import LONG, PAGE, A, B, Checked, leaves, settle
from engine import device_holds, identity

import hicache_nsa as hc
from hicache_nsa import testing

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
        assert c.drain(LONG) and c.unused == (16, 16)
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
