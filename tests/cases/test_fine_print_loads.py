"""The contract of LoadBack: joined, failed, adopted, and inserts behind one. Page size 4."""

from __future__ import annotations

import numpy as np
import pytest
from case_bytes import LAYOUTS, WIPED, device_views
from case_cache import LONG, CaseCache

import hicache_nsa as hc
from hicache_nsa.testing import fail_next, hold

layouts = pytest.mark.parametrize("layout", LAYOUTS)
A, B = list(range(8)), list(range(100, 108))
LONGER = [*A, 50, 51, 52, 53]
LONGEST = [*LONGER, 60, 61, 62, 63]


def behind(c: CaseCache, load: hc.LoadBack, tokens=LONGER, **options):
    """Insert ``tokens`` on the pages of ``load`` and freshly computed ones behind them."""
    own = c.compute_tail(tokens, load.tokens)
    return own, c.insert(tokens, np.concatenate([load.pages, own]), **options)


def test_a_load_has_the_pages_of_the_host_part_only():
    with CaseCache(32, 32) as c:
        c.put_on_host(LONGEST)
        first = c.start_load(A)
        assert first.wait(LONG)
        c.release(first)
        match = c.match_prefix(LONGEST)
        load = c.load_back(match)
        assert (load.tokens, len(load.pages), load.pages.dtype) == (8, 2, np.int64)
        assert not set(load.pages) & set(match.device_pages)
        assert load.wait(LONG) and load.done() and load.error is None
        assert c.holds([*match.device_pages, *load.pages], LONGEST)
        c.release(load)


def test_the_path_is_locked_until_the_release_which_is_idempotent():
    with CaseCache(32, 32) as c:
        c.put_on_host(A)
        load = c.start_load(A)
        assert load.wait(LONG) and c.poll() == 1
        assert c.device == (24, 0, 8, 0) and c.evict_device(8) == c.evict_host(8) == 0
        for _ in range(3):
            c.release(load)
        assert c.device == (24, 8, 0, 0) and c.locks() == [0]
        with c.start_load(A) if c.evict_device(8) else load as again:  # a context manager
            assert again.wait(LONG)
            again.release()
        c.check()
        assert c.device.locked == 0 and c.locks() == [0]


def test_pages_in_flight_are_no_hit_and_nobody_elses():
    with CaseCache(16, 32) as c:
        c.put_on_host(A)
        with hold(c.cache, "h2d"):
            load = c.start_load(A)
            assert c.hit(A) == (0, 8)
            assert c.device == (8, 0, 0, 8)
            assert not load.done() and load.error is None
            others = c.allocate(2)
            assert not set(others) & set(load.pages)
            with pytest.raises(hc.OutOfPages, match="2 in loads"):
                c.allocate(1)
            with pytest.raises(ValueError, match="load in flight"):
                c.free(load.pages)
        assert load.wait(LONG)
        assert c.hit(A) == (8, 0)
        c.release(load)
        c.free(others)


def test_layers_land_in_order_and_can_be_waited_for_one_by_one():
    with CaseCache(32, 32) as c:
        c.put_on_host(A)
        load = c.start_load(A)
        for layer in range(3):
            load.wait_layer(layer)
        assert load.wait(LONG) and c.holds(load.pages, A)
        for layer in (-1, 3, 2**40):
            with pytest.raises((ValueError, TypeError)):
                load.wait_layer(layer)
        c.release(load)
        again = c.load_back(c.match_prefix(A))
        assert again is None  # nothing left to load


@layouts
def test_joined_loads_copy_once_and_each_release_counts(layout):
    with CaseCache(32, 32, layout=layout) as c:
        c.put_on_host(LONGER)
        with hold(c.cache, "h2d"):
            first = c.start_load(A)
            longer = c.start_load(LONGER)  # joins the first, and copies one page more
            assert longer.pages[:2].tolist() == first.pages.tolist()
            assert c.device.owned == 12
        assert longer.wait(LONG) and first.wait(LONG)
        assert c.holds(longer.pages, LONGER)
        assert c.drain(LONG)
        stats = c.stats()
        assert (stats.load_back_tokens, stats.joined_loads) == (12, 1)
        assert c.engine.counters()["h2d"]["pages"] == 3
        c.release(first)
        assert c.device == (20, 0, 12, 0)
        c.release(longer)
        assert c.device == (20, 12, 0, 0)


def test_a_load_that_landed_meanwhile_costs_nothing():
    with CaseCache(32, 32) as c:
        c.put_on_host(A)
        match = c.match_prefix(A)
        first = c.start_load(A)
        assert first.wait(LONG) and c.poll() == 1
        load = c.load_back(match)
        assert load.done() and load.wait(0) and load.error is None
        assert load.pages.tolist() == first.pages.tolist() and c.device == (24, 0, 8, 0)
        c.release(first)
        assert c.device == (24, 0, 8, 0)
        c.release(load)
        assert c.device == (24, 8, 0, 0)


def test_what_left_the_host_since_the_match_is_not_loaded():
    with CaseCache(32, 32) as c:
        c.put_on_host(LONGER)
        match = c.match_prefix(LONGER)
        c.evict_host(4)
        load = c.load_back(match)
        assert load.tokens == 8 and load.wait(LONG) and c.holds(load.pages, A)
        c.release(load)
        c.evict_device(8)
        c.evict_host(8)
        assert c.load_back(match) is None


@layouts
@pytest.mark.parametrize("after_pages", [0, 1, 2])
def test_a_failed_load_leaves_nothing_half(layout, after_pages):
    with CaseCache(32, 32, layout=layout) as c:
        c.put_on_host(LONGER)
        fail_next(c.cache, "h2d", after_pages)
        load = c.start_load(LONGER)
        with pytest.raises(hc.TransferError):
            load.wait(LONG)
        written = [
            [not (view == WIPED).all() for _, _, view in device_views(c.device_pool, page)]
            for page in load.pages
        ]
        assert all(all(page) or not any(page) for page in written)  # latent and index_k together
        assert sum(map(all, written)) == after_pages
        c.poll()
        match = c.match_prefix(LONGER)
        assert match.device_tokens % 4 == 0 and c.holds(
            match.device_pages, LONGER[: match.device_tokens]
        )
        c.release(load)
        assert c.host_is(LONGER) and c.device.owned == c.device.locked == 0


def test_everybody_who_joined_a_failed_load_hears_of_it():
    with CaseCache(32, 32) as c:
        c.put_on_host(LONGER)
        with hold(c.cache, "h2d"):
            fail_next(c.cache, "h2d")
            loads = [c.start_load(A), c.start_load(A), c.start_load(LONGER)]
        for load in loads:
            with pytest.raises(hc.TransferError, match="injected"):
                load.wait(LONG)
        assert c.drain(LONG) and c.stats().failed_loads == 1
        assert c.hit(LONGER) == (0, 12)  # the part below it has a gap before it: not kept
        free = [c.device.free]
        for load in loads:
            c.release(load)
            free.append(c.device.free)
        assert free == [20, 20, 20, 32] and set(c.locks()) == {0}


# -- inserts behind a load -----------------------------------------------------------------------


@pytest.mark.parametrize("lock", [None, True])
def test_an_insert_behind_a_load_is_matched_and_saved_from_the_ack_on(lock):
    with CaseCache(32, 32) as c:
        c.put_on_host(A)
        with hold(c.cache, "h2d"):
            load = c.start_load(A)
            own, result = behind(c, load, lock=lock)
            assert (result.duplicate_tokens, result.inserted_tokens) == (8, 4)
            assert result.pages.tolist() == [*load.pages, *own]
            assert c.hit(LONGER) == (0, 8)
            assert c.device == (20, 0, 0, 12)
            assert c.engine.counters()["d2h"]["submitted"] == 1  # A's save, nothing new
            with pytest.raises(ValueError, match="behind"):
                c.free(own)
        assert c.drain(LONG)
        assert c.hit(LONGER) == (12, 0) and c.host_is(LONGER)
        assert c.match_prefix(LONGER).device_pages.tolist() == result.pages.tolist()
        c.release(load)
        if lock:
            assert c.device == (20, 0, 12, 0)
            c.unlock(result.handle)
        assert c.device == (20, 12, 0, 0) and set(c.locks()) == {0}


def test_inserts_behind_an_insert_behind_a_load():
    with CaseCache(32, 32) as c:
        c.put_on_host(A)
        with hold(c.cache, "h2d"):
            load = c.start_load(A)
            _, result = behind(c, load, lock=True)
            pages = np.concatenate([result.pages, c.compute_tail(LONGEST, 12)])
            last = c.insert(LONGEST, pages, lock=result.handle)
            assert (last.duplicate_tokens, last.inserted_tokens) == (12, 4)
            assert c.hit(LONGEST) == (0, 8)
        assert c.drain(LONG)
        assert c.hit(LONGEST) == (16, 0) and c.host_is(LONGEST)
        assert c.holds(c.match_prefix(LONGEST).device_pages, LONGEST)
        c.release(load)
        c.unlock(last.handle)
        assert c.device == (16, 16, 0, 0)


@pytest.mark.parametrize("order", ["release first", "unlock first"])
def test_an_insert_behind_a_failed_load_is_dropped_and_freed_once_unlocked(order):
    with CaseCache(32, 32) as c:
        c.put_on_host(A)
        fail_next(c.cache, "h2d")
        with hold(c.cache, "h2d"):
            load = c.start_load(A)
            own, result = behind(c, load, lock=True)
            _, unlocked = behind(c, load, [*A, 70, 71, 72, 73])
            assert unlocked.handle is None
        assert c.drain(LONG)
        assert c.hit(LONGER) == (0, 8) and c.hit([*A, 70, 71, 72, 73]) == (0, 8)
        assert c.stats().failed_loads == 1 and c.stats().dropped_tokens == 8
        assert c.device == (20, 0, 0, 12)  # own page and the load's; the unlocked one is free
        assert c.holds(own, LONGER, first=2)  # still the request's to read
        if order == "release first":
            c.release(load)
            assert c.device.free == 20
            c.unlock(result.handle)
        else:
            c.unlock(result.handle)
            assert c.device.free == 24
            c.release(load)
        assert c.device == (32, 0, 0, 0)
        assert c.host == (24, 8, 0, 0) and set(c.locks()) == {0}


def test_pages_of_a_failed_load_stay_the_requests_until_it_unlocks():
    """Else another request gets them, and the first one's next insert takes them away from it."""
    with CaseCache(32, 32) as c:
        c.put_on_host(A)
        fail_next(c.cache, "h2d")
        with hold(c.cache, "h2d"):
            load = c.start_load(A)
            _, result = behind(c, load, lock=True)
            c.release(load)
        assert c.drain(LONG)
        others = c.allocate(c.device.free // 4)
        assert not set(others) & set(result.pages)
        again = c.insert(LONGER, result.pages, lock=result.handle)
        assert c.hit(LONGER) == (0, 8)
        c.unlock(again.handle)
        assert c.device == (12, 0, 0, 20)
        c.free(others)


# -- adoption ------------------------------------------------------------------------------------


def test_pages_computed_for_a_node_that_is_still_loading_are_adopted():
    with CaseCache(32, 32) as c:
        c.put_on_host(A)
        with hold(c.cache, "h2d"):
            first, second = c.start_load(A), c.start_load(A)
            result = c.put(A)
            assert (result.duplicate_tokens, result.inserted_tokens) == (0, 8)
            assert c.hit(A) == (8, 0)
            assert c.match_prefix(A).device_pages.tolist() == result.pages.tolist()
        assert c.drain(LONG) and first.error is None
        assert c.holds(first.pages, A)  # right, and not needed
        assert c.device == (16, 0, 8, 8)
        c.release(first)
        assert c.device.free == 16
        c.release(second)  # the last release
        assert c.device == (24, 8, 0, 0)
        assert c.match_prefix(A).device_pages.tolist() == result.pages.tolist()


def test_adopted_pages_outlive_the_failure_of_the_load():
    with CaseCache(32, 32) as c:
        c.put_on_host(A)
        fail_next(c.cache, "h2d")
        with hold(c.cache, "h2d"):
            load = c.start_load(A)
            result = c.put(A)
        assert c.drain(LONG) and load.error is not None
        assert c.hit(A) == (8, 0) and c.holds(result.pages, A)
        c.release(load)
        assert c.device == (24, 8, 0, 0)


@pytest.mark.parametrize("adopted", ["before", "after"])
def test_the_pages_an_insert_names_stay_right_when_the_load_gives_its_own_up(adopted):
    """Another request computes A itself, before or after this one's insert behind the load."""
    with CaseCache(32, 32) as c:
        c.put_on_host(A)
        with hold(c.cache, "h2d"):
            load = c.start_load(A)
            if adopted == "before":
                c.put(A)
            _, result = behind(c, load, lock=True)
            if adopted == "after":
                c.put(A)
            c.release(load)
        assert c.drain(LONG)
        others = c.allocate(c.device.free // 4)
        assert not set(others) & set(result.pages)
        for page in others:
            for _, _, view in device_views(c.device_pool, page):
                view[...] = WIPED
        assert c.holds(result.pages, LONGER)
        c.unlock(result.handle)
        c.free(others)
        assert c.hit(LONGER) == (12, 0) and c.device == (20, 12, 0, 0)


def test_what_the_tree_has_already_needs_no_load_to_land():
    """The caller's page behind the load is a duplicate at once if others inserted that place."""
    with CaseCache(32, 32) as c:
        c.put_on_host(A)
        fail_next(c.cache, "h2d")
        with hold(c.cache, "h2d"):
            load = c.start_load(A)
            there = c.put(LONGER)
            _, result = behind(c, load)
            assert (result.duplicate_tokens, result.inserted_tokens) == (12, 0)
            assert result.pages.tolist() == there.pages.tolist()
        assert c.drain(LONG)
        c.release(load)
        assert c.hit(LONGER) == (12, 0) and c.holds(result.pages, LONGER)
        assert c.device == (20, 12, 0, 0)
