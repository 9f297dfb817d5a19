"""F03, F04, F05, F21, F28, F36: what other calls may do while a copy is in flight."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from case_bytes import LAYOUTS, fill
from case_cache import LONG, CaseCache

import hicache_nsa as hc
from hicache_nsa.testing import fail_next, hold

layouts = pytest.mark.parametrize("layout", LAYOUTS)
A, B = list(range(8)), list(range(100, 108))


@layouts
def test_f03_the_source_of_a_load_is_never_handed_out(layout):
    """D=16, H=16, P=4; B takes what is free while A is on its way to the device."""
    with CaseCache(16, 16, layout=layout) as c:
        c.put_on_host(A)
        assert c.host.free == 8
        source = set(c.match_prefix(A).host_pages)
        with hold(c.cache, "h2d"):
            load = c.start_load(A)
            assert c.device.free == 8
            assert c.evict_host(16) == 0
            c.put(B)
            assert c.drain(0) is False  # B is saved, A still loads
            c.settle("d2h")
            assert c.host.free == 0
            b = {int(p) for n in c.tree.nodes() if n.key.numpy()[0] == 100 for p in n.host_pages}
            assert len(b) == 2 and not b & source
            assert c.evict_host(8) == 8  # B's mirror: never A
            assert c.evict_host(8) == 0
        assert load.wait(LONG)
        assert c.poll() == 1
        assert c.holds(load.pages, A)
        c.release(load)
        assert c.hit(A) == (8, 0)
        assert c.evict_device(16) == 16  # A's 8 and B's
        assert c.evict_host(8) == 8  # the pin was released exactly once
        assert c.host.free == 16 and c.hit(A) == (0, 0)


@layouts
def test_f04_a_page_that_is_being_saved_is_never_handed_out(layout):
    """Without write_back: D=8, H=8, P=4, A is being saved; nobody gets its slots before the ack."""
    with CaseCache(8, 8, layout=layout) as c:
        with hold(c.cache, "d2h"):
            c.put(A)
            assert c.device == (0, 0, 8, 0)  # cached and being saved: locked
            assert c.evict_device(8) == 0
            with pytest.raises(hc.OutOfPages):
                c.allocate(1)
            assert c.load_back(c.match_prefix(A)) is None
            assert c.device.free == 0
        assert c.drain(LONG)
        assert c.evict_device(8) == 8
        z = c.allocate(2)
        for page in z:
            fill(c.device_pool, page, -1)
        assert c.host_is(A)
        c.free(z)


@layouts
def test_f04_the_next_writer_of_a_flushed_page_comes_after_its_save(layout):
    with CaseCache(8, 8, layout=layout) as c:
        gate = hold(c.cache, "d2h")
        gate.__enter__()
        c.put(A)
        threading.Timer(0.05, gate.__exit__, (None, None, None)).start()
        report = c.reset()  # finishes the save first
        assert (report.kept_host_tokens, report.dropped_tokens) == (8, 0)
        z = c.allocate(2)
        for page in z:
            fill(c.device_pool, page, -1)
        c.free(z)
        assert c.hit(A) == (0, 8) and c.host_is(A)


@layouts
@pytest.mark.parametrize("after_pages", [0, 1])
def test_f05_a_failed_load_is_a_miss(layout, after_pages):
    """D=16, H=16, P=4, A host-only."""
    with CaseCache(16, 16, layout=layout) as c:
        c.put_on_host(A)
        fail_next(c.cache, "h2d", after_pages)
        load = c.start_load(A)
        with pytest.raises(hc.TransferError, match="injected failure"):
            load.wait(LONG)
        assert load.done() and "injected failure" in load.error
        assert c.poll() == 1
        c.release(load)
        assert c.device == (16, 0, 0, 0) and c.host == (8, 8, 0, 0)
        assert c.locks() == [0]
        assert c.hit(A) == (0, 8) and c.host_is(A)
        stats = c.stats()
        assert (stats.failed_loads, stats.load_back_tokens) == (1, 0)
        again = c.start_load(A)
        assert again.wait(LONG) and c.poll() == 1
        assert c.holds(again.pages, A)
        c.release(again)


@layouts
@pytest.mark.parametrize("after_pages", [0, 1])
def test_f05_a_failed_save_leaves_the_device_copy(layout, after_pages):
    with CaseCache(16, 16, layout=layout) as c:
        c.put_on_host(A)
        before = c.host
        fail_next(c.cache, "d2h", after_pages)
        c.put(B)
        assert c.drain(LONG)
        assert c.host == before
        assert c.stats().failed_saves == 1
        assert c.hit(B) == (8, 0) and c.hit(A) == (0, 8)
        assert c.locks() == [0, 0]
        c.insert(B, c.match_prefix(B).device_pages)  # the next insert saves it
        assert c.drain(LONG) and c.host_is(B)


@layouts
def test_f21_a_node_is_split_while_it_is_being_saved(layout):
    """P=4, D=32, H=32: N(16), split 8/8, new M(8). Events and disk are for later tiers."""
    n = list(range(16))
    m = n[:8] + list(range(50, 58))
    with CaseCache(32, 32, layout=layout) as c:
        with hold(c.cache, "d2h"):
            c.put(n)
            before = hc.page_hashes(n, c.format)
            assert c.put(m).duplicate_tokens == 8
        assert c.drain(LONG)
        assert c.locks() == [0, 0, 0]
        nodes = sorted(c.tree.nodes(), key=lambda node: (node.start, node.key.numpy()[0]))
        assert [len(node.key) for node in nodes] == [8, 8, 8]
        assert [len(node.host_pages) * 4 for node in nodes] == [8, 8, 8]
        assert c.host.free == 8
        assert c.host_is(n) and c.host_is(m)
        assert c.stats().saved_tokens == 24
        assert np.array_equal(hc.page_hashes(n, c.format), before)


@layouts
def test_f21_a_node_is_split_while_it_is_being_loaded(layout):
    n = list(range(16))
    with CaseCache(32, 32, layout=layout) as c:
        c.put_on_host(n)
        with hold(c.cache, "h2d"):
            load = c.start_load(n)
            assert c.put([*n[:4], 9, 9, 9, 9]).inserted_tokens == 8  # adopts page 0, splits at 4
            assert c.hit(n[:12]) == (4, 8)  # splits at 12
        assert c.drain(LONG)
        assert load.error is None and c.holds(load.pages, n)
        assert c.hit(n) == (16, 0)
        assert c.holds(c.match_prefix(n).device_pages, n)
        c.release(load)
        assert set(c.locks()) == {0} and c.device.locked == 0
        assert c.device.evictable == 20 and c.device.owned == 0


def test_f28_a_child_is_never_on_host_without_its_parent():
    """Scenario 2: the middle of a path never reaches the host, its child's save does."""
    a, ab, abc = list(range(8)), list(range(12)), list(range(16))
    with CaseCache(32, 32) as c:
        c.put(a)
        assert c.drain(LONG)
        with hold(c.cache, "d2h"):
            fail_next(c.cache, "d2h")
            c.put(ab)
            c.put(abc)
            assert c.host.owned == 8  # both copies are on their way
        assert c.drain(LONG)
        assert c.host == (24, 8, 0, 0)  # C's 4 slots came back with the gap before them
        assert c.evict_device(16) == 16
        assert c.hit(abc) == (0, 8)
        load = c.start_load(abc)
        assert load.tokens == 8 and load.wait(LONG) and c.poll() == 1
        assert c.holds(load.pages, a)
        c.release(load)


@layouts
def test_f28_part_of_a_host_only_node_is_a_hit(layout):
    """Scenario 1: A(16) host-only, the query shares 10 tokens."""
    a = list(range(16))
    query = a[:10] + [90] * 6
    with CaseCache(32, 32, layout=layout) as c:
        c.put_on_host(a)
        assert c.hit(query) == (0, 8)
        assert sorted(len(node.key) for node in c.tree.nodes()) == [8, 8]
        load = c.start_load(query)
        assert load.tokens == 8 and load.wait(LONG) and c.poll() == 1
        assert c.holds(load.pages, a[:8])
        c.release(load)
        assert c.hit(a) == (8, 8)


def test_f36_finished_saves_are_taken_in_by_eviction_itself():
    """D=12, H=12, P=4: three inserts of 4, their copies finish, nobody polls."""
    with CaseCache(12, 12) as c:
        with hold(c.cache, "d2h"):
            for start in (0, 100, 200):
                c.put(range(start, start + 4))
            assert c.device == (0, 0, 12, 0)
        c.settle()
        assert c.cache.evict_device(12) == 12
        assert c.device == (12, 0, 0, 0)


def test_f36_finished_saves_are_taken_in_by_allocation_itself():
    with CaseCache(12, 12) as c:
        with hold(c.cache, "d2h"):
            c.put(range(12))
        c.settle()
        pages = c.cache.allocate(3)
        assert c.device == (0, 0, 0, 12)
        c.free(pages)


def test_f36_with_polled_acks_only_poll_takes_them_in():
    with CaseCache(12, 12, acks="poll") as c:
        c.put(range(12))
        c.settle()
        assert c.evict_device(12) == 0 and c.device.locked == 12
        assert c.poll(0) == 0 and c.device.locked == 12
        assert c.poll() == 1
        assert c.evict_device(12) == 12
