"""F20, F22 to F28, F47: locks, splits, gaps and thresholds. Page size 4; numbers are tokens."""

from __future__ import annotations

import numpy as np
import pytest
from case_bytes import LAYOUTS
from case_cache import FORMAT, LONG, CaseCache

import hicache_nsa as hc
from hicache_nsa.testing import fail_next, hold

layouts = pytest.mark.parametrize("layout", LAYOUTS)


def test_f20_a_lock_counts_its_own_node_and_all_above():
    a, ab = list(range(8)), list(range(16))
    with CaseCache(16, 0) as c:
        c.put(a)
        c.insert(ab, np.concatenate([c.match_prefix(a).device_pages, c.compute_tail(ab, 8)]))
        assert c.device == (0, 16, 0, 0)
        handle = c.lock(c.match_prefix(ab))
        assert (handle.device_tokens, handle.host_tokens) == (16, 0)
        assert c.device == (0, 0, 16, 0)
        assert c.evict_device(16) == 0
        c.unlock(handle)
        assert c.device == (0, 16, 0, 0)
        assert c.evict_device(16) == 16
        assert c.device == (16, 0, 0, 0) and c.locks() == []


def test_f20_locking_the_upper_part_leaves_the_lower_evictable():
    a, ab = list(range(8)), list(range(16))
    with CaseCache(16, 0) as c:
        c.put(ab)
        handle = c.lock(c.match_prefix(a))
        assert c.device == (0, 8, 8, 0)
        assert c.evict_device(16) == 8
        assert c.hit(ab) == (8, 0)
        c.unlock(handle)
        assert c.evict_device(16) == 8


def test_f20_nothing_is_locked_by_an_empty_match():
    with CaseCache(16, 0) as c:
        c.put(range(8))
        handle = c.lock(c.match_prefix([7, 7, 7, 7]))
        assert (handle.device_tokens, handle.host_tokens) == (0, 0)
        assert c.device == (8, 8, 0, 0)
        c.unlock(handle)
        with pytest.raises(ValueError, match="unlocked already"):
            c.unlock(handle)


def test_f22_splits_lie_between_pages():
    k1 = list(range(16))
    k2 = k1[:6] + list(range(50, 60))
    with CaseCache(64, 0) as c:
        for _ in range(2):
            assert c.put(k1).duplicate_tokens == 0
            assert c.put(k2).duplicate_tokens == 4
            assert sorted(len(n.key) for n in c.tree.nodes()) == [4, 12, 12]
            assert c.device == (64 - 28, 28, 0, 0)
            assert c.hit(k1) == c.hit(k2) == (16, 0)
            assert c.evict_device(28) == 28
            assert not c.tree.roots and c.device.free == 64
            assert c.hit(k1) == c.hit(k2) == (0, 0)


@pytest.mark.parametrize("length, whole", [(0, 0), (1, 0), (3, 0), (4, 4), (7, 4)])
def test_f23_less_than_a_page_is_never_cached(length, whole):
    tokens = list(range(length))
    with CaseCache(16, 16) as c:
        pages = c.allocate(2)
        assert c.hit(tokens) == (0, 0)
        result = c.insert(tokens, pages)
        assert (result.inserted_tokens, result.duplicate_tokens) == (whole, 0)
        assert len(result.pages) == whole // 4
        assert c.device.owned == 8 - whole  # the rest stays the caller's
        assert c.hit(tokens) == (whole, 0)
        assert c.stats().inserted_tokens == whole
        assert c.stats().matched_device_tokens == whole
        c.free(pages[whole // 4 :])
        assert c.drain(LONG) and c.device.owned == c.device.locked == 0


def test_f24_no_host_copy_below_one_that_is_missing():
    """D=32, H=8, write_through; the host tier is full of Q, which is in use."""
    q, a, b = list(range(200, 208)), list(range(8)), list(range(12))
    with CaseCache(32, 8) as c:
        c.put_on_host(q)
        pin = c.lock(c.match_prefix(q))
        assert (pin.device_tokens, pin.host_tokens) == (0, 8)
        c.put(a)
        assert c.drain(LONG) and c.stats().refused_save_tokens == 8
        assert c.host == (0, 0, 8, 0) and c.hit(q) == (0, 8)
        c.unlock(pin)
        assert c.evict_host(8) == 8
        c.insert(b, np.concatenate([c.match_prefix(a).device_pages, c.compute_tail(b, 8)]))
        assert c.drain(LONG)
        assert c.evict_device(12) == 12
        assert c.device.free == 32
        assert c.hit(b) == (0, 8) and c.host.free == 0
        assert c.host_is(a)
        assert [len(n.key) for n in c.tree.nodes()] == [8]  # B is gone


def test_f24_a_failed_save_of_the_parent_keeps_the_child_off_the_host():
    a, b = list(range(8)), list(range(12))
    with CaseCache(32, 8) as c:
        fail_next(c.cache, "d2h")
        c.put(a)
        assert c.drain(LONG)
        c.insert(b, np.concatenate([c.match_prefix(a).device_pages, c.compute_tail(b, 8)]))
        assert c.drain(LONG)
        for node in c.tree.nodes():
            whole_above = node.start == 0 or len(node.parent.host_pages) * 4 == len(node.parent.key)
            assert whole_above or not len(node.host_pages)
        assert c.evict_device(12) == 12
        assert c.hit(b) == (0, 8) and c.host_is(a)  # the second insert saved A as far as it fits


def test_f25_what_found_no_room_on_host_leaves_no_empty_node():
    """write_through form: D=16, H=4, the host tier is full of Q, which is in use."""
    q, a = list(range(200, 204)), list(range(8))
    with CaseCache(16, 4) as c:
        c.put_on_host(q)
        pin = c.lock(c.match_prefix(q))
        c.put(a)
        assert c.evict_device(8) == 8
        assert c.hit(a) == (0, 0) and c.hit(q) == (0, 4)
        assert c.host.free == 0 and c.host_is(q)
        for node in c.tree.nodes():
            assert len(node.device_pages) or len(node.host_pages)
        assert c.stats().dropped_tokens == 8
        c.unlock(pin)


def test_f26_one_call_evicts_a_whole_path():
    """write_through form: A(4)->B(4)->C(4) saved; one evict_d(12), then evict_d(5) afresh."""
    abc = list(range(12))
    with CaseCache(16, 16) as c:
        for end in (4, 8, 12):
            known = c.match_prefix(abc[:end]).device_pages
            c.insert(abc[:end], np.concatenate([known, c.compute_tail(abc[:end], end - 4)]))
        assert sum(1 for _ in c.tree.nodes()) == 3
        assert c.drain(LONG)
        assert c.evict_device(12) == 12
        assert c.device.free == 16 and c.host.free == 4
        assert all(node.value is None for node in c.tree.nodes())
        assert c.hit(abc) == (0, 12)


def test_f26_eviction_takes_whole_pages_from_the_tail_and_no_more():
    abc = list(range(12))
    with CaseCache(16, 16) as c:
        c.put(abc)
        assert c.drain(LONG)
        assert c.evict_device(5) == 8
        assert c.hit(abc) == (4, 8)
        assert c.evict_device(0) == 0 and c.evict_device(1) == 4 and c.evict_device(1) == 0


@layouts
def test_f27_a_load_below_the_threshold_or_without_room_changes_nothing(layout):
    """P=4, threshold 10. The announced cost of a load is ``match.load_tokens``."""
    short, long_ = list(range(8)), list(range(100, 112))
    with CaseCache(16, 32, load_back_threshold=10, layout=layout) as c:
        c.put_on_host(short, long_)
        assert c.load_back(c.match_prefix(short)) is None  # (1)
        assert c.device.free == 16 and c.locks() == [0, 0]
        taken = c.allocate(2)
        before = (c.device, c.host, c.locks())
        assert c.load_back(c.match_prefix(long_)) is None  # (2) fd=8, ev=0
        assert (c.device, c.host, c.locks()) == before and c.device.free == 8
        assert c.hit(long_) == (0, 12) and c.host_is(long_)
        assert c.stats().load_back_tokens == c.stats().matched_host_tokens == 0
        c.free(taken[:1])  # (3)
        match = c.match_prefix(long_)
        assert match.load_tokens == 12
        free = c.device.free
        load = c.load_back(match)
        assert free - c.device.free == match.load_tokens == load.tokens
        assert load.wait(LONG) and c.holds(load.pages, long_)
        c.release(load)
        c.free(taken[1:])


def test_f27_a_load_makes_room_by_eviction_but_not_of_its_own_prefix():
    """D=12: fd=4, and 8 evictable of which 4 are the device part of the match itself."""
    own, other = list(range(12)), list(range(100, 104))
    with CaseCache(12, 32) as c:
        c.put_on_host(own)
        load = c.start_load(own[:4])
        assert load.wait(LONG) and c.poll() == 1
        c.release(load)
        c.put(other)
        assert c.drain(LONG)
        assert c.hit(own) == (4, 8) and c.device == (4, 8, 0, 0)
        handle = c.lock(c.match_prefix(other))
        assert c.load_back(c.match_prefix(own)) is None
        assert c.hit(own) == (4, 8) and c.stats().declined_loads == 1
        c.unlock(handle)
        load = c.start_load(own)
        assert load.tokens == 8 and load.wait(LONG)
        assert c.hit(other) == (0, 4)  # evicted for it
        assert c.hit(own) == (12, 0)
        assert c.holds(c.match_prefix(own).device_pages, own)
        c.release(load)


def test_f27_joining_a_load_costs_nothing():
    a = list(range(12))
    with CaseCache(12, 32) as c:
        c.put_on_host(a)
        with hold(c.cache, "h2d"):
            first = c.start_load(a)
            match = c.match_prefix(a)
            assert (match.host_tokens, match.load_tokens) == (12, 0)
            second = c.load_back(match)
            assert second is not None and c.device == (0, 0, 0, 12)
            assert np.array_equal(first.pages, second.pages)
        assert second.wait(LONG) and c.holds(second.pages, a)
        c.release(first)
        c.release(second)
        assert c.device == (0, 12, 0, 0)
        assert c.stats().joined_loads == 1 and c.stats().load_back_tokens == 12


def test_f47_chunked_inserts_are_saved_once():
    """P=4: 16 tokens in 4 chunked inserts; the request keeps its prefix."""
    tokens = list(range(16))
    with CaseCache(32, 32) as c:
        pages, handle = np.empty(0, dtype=np.int64), True
        for end in (4, 8, 12, 16):
            pages = np.concatenate([pages, c.compute_tail(tokens[:end], end - 4)])
            result = c.insert(tokens[:end], pages, lock=handle)
            pages, handle = result.pages, result.handle
            assert (result.inserted_tokens, result.duplicate_tokens) == (4, end - 4)
        c.unlock(handle)
        assert c.drain(LONG)
        assert c.stats().saved_tokens == 16 and c.host.evictable == 16
        assert c.engine.counters()["d2h"]["pages"] == 4
        assert c.evict_device(16) == 16
        assert c.hit(tokens) == (0, 16)


def test_f47_a_long_run_of_chunks_keeps_only_its_own_prompt_in_memory():
    """A split keeps no token buffer of a prompt alive that is longer than the node it is for."""
    long_ = list(range(4 * 500))
    with hc.HiCache(FORMAT, device_pages=600, host_pages=0) as cache:
        cache.insert(long_, cache.allocate(500))
        cache.insert([*long_[:4], 9, 9, 9, 9], cache.allocate(2))
        cache.evict_device(4 * 499)
        cache.check()
        assert all(len(node.packed_key) <= 16 * 4 for node in cache.tree.nodes())
