"""F12, F18, F19: what a flush keeps, what it drops, and handles from before it. Page size 4."""

from __future__ import annotations

import numpy as np
import pytest
from case_bytes import LAYOUTS, wipe
from case_cache import LONG, CaseCache

import hicache_nsa as hc
from hicache_nsa._core import TokenSpan
from hicache_nsa.testing import fail_next, hold
from hicache_nsa.tree import RadixTree
from hicache_nsa.tree.flush import flush_device

layouts = pytest.mark.parametrize("layout", LAYOUTS)


def extend(c: CaseCache, tokens: list[int], known: int):
    """Insert ``tokens`` of which ``known`` are on the device already."""
    pages = c.match_prefix(tokens[:known]).device_pages
    return c.insert(tokens, np.concatenate([pages, c.compute_tail(tokens, known)]))


def test_f12_a_flush_keeps_host_copies_and_invalidate_does_not():
    a = list(range(16))
    with CaseCache(32, 32) as c:
        c.put(a)
        assert c.drain(LONG)
        c.reset()
        assert c.hit(a) == (0, 16)
        c.invalidate()
        assert c.hit(a) == (0, 0)
        assert c.host == (32, 0, 0, 0) and c.device == (32, 0, 0, 0)


def test_f12_invalidate_keeps_late_results_of_the_old_weights_out():
    a = list(range(16))
    with CaseCache(32, 32) as c:
        late = c.compute(a)
        c.invalidate()
        with pytest.raises(hc.StaleHandleError, match="invalidate"):
            c.insert(a, late)
        assert c.hit(a) == (0, 0) and c.device.owned == 16
        c.free(late)
        assert c.put(a).inserted_tokens == 16


def test_f12_the_documentation_says_that_a_flush_is_not_enough():
    text = " ".join(hc.HiCache.reset.__doc__.split())
    assert "weights" in text and "invalidate" in text and "ot enough" in text


@layouts
def test_f18_a_flush_keeps_what_the_host_can_reach(layout):
    """D=64, H=64: A(16 d+h)->C(8 d+h); B(16 d)->E(8 d); G(8 h). C is locked by a lost request."""
    ac, be, g = list(range(24)), list(range(100, 124)), list(range(200, 208))
    with CaseCache(64, 64, layout=layout) as c:
        c.put_on_host(g)
        c.put(ac[:16])
        extend(c, ac, 16)
        assert c.drain(LONG)
        fail_next(c.cache, "d2h")
        fail_next(c.cache, "d2h")
        c.put(be[:16])
        assert c.drain(LONG)
        extend(c, be, 16)
        assert c.drain(LONG) and c.stats().failed_saves == 2
        assert [c.hit(x) for x in (ac, be, g)] == [(24, 0), (24, 0), (0, 8)]
        assert c.host == (32, 32, 0, 0)
        lost = c.lock(c.match_prefix(ac))
        assert c.device == (16, 24, 24, 0)

        report = c.reset()
        assert (report.kept_host_tokens, report.dropped_tokens, report.owned_pages) == (32, 24, 0)
        for again in range(2):
            assert c.device == (64, 0, 0, 0)
            assert c.host == (32, 32, 0, 0)
            assert set(c.locks()) == {0}
            assert [c.hit(x, count=False) for x in (ac, g, be)] == [(0, 24), (0, 8), (0, 0)]
            shape = sorted((n.start, n.end, tuple(n.host_pages)) for n in c.tree.nodes())
            if not again:
                first = shape
                report = c.reset()
                assert (report.kept_host_tokens, report.dropped_tokens) == (32, 0)
        assert shape == first
        wipe(c.device_pool)
        load = c.start_load(ac)
        assert load.tokens == 24 and load.wait(LONG) and c.poll() == 1
        assert c.holds(load.pages, ac)
        c.release(load)
        c.unlock(lost)
        assert c.device == (40, 24, 0, 0)


def test_f18_a_host_copy_behind_a_gap_never_outlives_its_save():
    """B's save fails while E's is on its way: E's 8 host slots come back."""
    be = list(range(24))
    with CaseCache(64, 64) as c:
        with hold(c.cache, "d2h"):
            fail_next(c.cache, "d2h")
            c.put(be[:16])
            extend(c, be, 16)
            assert c.host == (40, 0, 0, 24)
        report = c.reset()
        assert (report.kept_host_tokens, report.dropped_tokens) == (0, 24)
        assert c.host.free == 64 and c.device.free == 64 and not c.tree.roots


def test_f18_a_host_copy_that_no_walk_from_the_root_reaches_is_given_back():
    """The tree itself, brought into a state that the cache never makes: E on host, B not."""
    tree = RadixTree(4)
    be = TokenSpan(np.arange(24))
    b = tree.add(tree.root(b""), be.slice(0, 16))
    tree.set_device(b, np.arange(4))
    e = tree.add(b, be.slice(16, 24))
    tree.set_device(e, np.arange(4, 6))
    tree.set_host(e, np.array([8, 9]))
    tree.lock(e)
    keys = b.packed_keys + e.packed_keys
    flushed = flush_device(tree)
    assert sorted(flushed.device_pages) == [0, 1, 2, 3, 4, 5]
    assert sorted(flushed.host_pages) == [8, 9]
    assert (flushed.kept_host_tokens, flushed.dropped_keys) == (0, keys)
    assert not tree.roots and not list(tree.nodes())
    tree.check()


@layouts
def test_f18_a_partly_saved_node_keeps_its_saved_part(layout):
    a = list(range(16))
    with CaseCache(32, 8, layout=layout) as c:
        c.put(a)
        assert c.drain(LONG)
        report = c.reset()
        assert (report.kept_host_tokens, report.dropped_tokens) == (8, 8)
        assert c.hit(a) == (0, 8) and c.host_is(a[:8])


def test_f18_copies_in_flight_are_finished_first():
    a, b = list(range(8)), list(range(100, 108))
    with CaseCache(32, 32) as c:
        c.put_on_host(b)
        c.start_load(b)
        c.put(a)
        report = c.reset()
        assert report.kept_host_tokens == 16 and c.stats().saves_in_flight == 0
        assert c.hit(a) == (0, 8) and c.hit(b) == (0, 8)
        assert c.device.free == 32


def test_f18_pages_of_callers_stay_theirs():
    with CaseCache(32, 32) as c:
        mine = c.compute(range(8))
        c.put(range(100, 108))
        report = c.reset()
        assert report.owned_pages == 2 and c.device == (24, 0, 0, 8)
        assert c.holds(mine, range(8))
        c.insert(range(8), mine)  # not invalidate: the pages are as good as before
        assert c.hit(range(8)) == (8, 0)


def test_f18_the_order_of_use_outlives_a_flush():
    prompts = [list(range(start, start + 4)) for start in (0, 100, 200)]
    with CaseCache(32, 12) as c:
        c.put_on_host(*prompts)
        c.hit(prompts[0])
        c.reset()
        assert c.evict_host(4) == 4
        assert [c.hit(p, count=False) for p in prompts] == [(0, 4), (0, 0), (0, 4)]


def test_f19_a_lock_from_before_a_flush_is_void():
    a = list(range(8))
    with CaseCache(16, 16) as c:
        c.put(a)
        assert c.drain(LONG)
        match = c.match_prefix(a)
        handle = c.lock(match)
        c.reset()
        c.unlock(handle)
        c.unlock(handle)
        assert c.device == (16, 0, 0, 0) and c.host == (8, 8, 0, 0)
        pages = c.compute(a)
        for call in (
            lambda: c.insert(a, pages, lock=handle),
            lambda: c.lock(match),
            lambda: c.load_back(match),
        ):
            with pytest.raises(hc.StaleHandleError, match=r"epoch 0.*epoch 1"):
                call()
        assert c.device.owned == 8 and c.hit(a) == (0, 8)
        c.free(pages)
        for _ in range(3):  # normal use of the new tree
            load = c.start_load(a)
            lock = c.lock(c.match_prefix(a))
            assert load.wait(LONG)
            c.release(load)
            c.unlock(lock)
            assert c.device == (8, 8, 0, 0) and set(c.locks()) == {0}
            assert c.evict_device(8) == 8


def test_f19_a_load_from_before_a_flush_never_touches_other_pages():
    a = list(range(8))
    with CaseCache(8, 16) as c:
        c.put_on_host(a)
        load = c.start_load(a)
        c.reset()
        assert c.device.free == 8
        others = c.compute(range(50, 58))  # the same two pages
        assert set(others) == set(load.pages)
        c.release(load)
        c.release(load)
        with load:
            pass
        c.check()
        assert c.device == (0, 0, 0, 8) and c.holds(others, range(50, 58))
        c.free(others)


@pytest.mark.parametrize("flush", ["reset", "clear", "invalidate"])
def test_f19_every_kind_of_flush_voids_handles(flush):
    a = list(range(8))
    with CaseCache(16, 16) as c:
        result = c.put(a, lock=True)
        match = c.match_prefix(a)
        getattr(c, flush)()
        with pytest.raises(hc.StaleHandleError):
            c.lock(match)
        c.unlock(result.handle)
        assert c.drain(LONG)  # invalidate does not wait for the save
        assert c.device == (16, 0, 0, 0) and set(c.locks()) <= {0}
