"""The contract, method by method: match, lock, insert, eviction order, poll. Page size 4."""

from __future__ import annotations

import numpy as np
import pytest
from case_cache import LONG, CaseCache

from hicache_nsa.testing import hold

A, B = list(range(8)), list(range(100, 108))


def state(c: CaseCache):
    """Everything a refused call must leave as it was."""
    nodes = sorted(
        (n.start, n.end, tuple(n.key.numpy()), tuple(n.device_pages), tuple(n.host_pages),
         n.lock_ref, n.hits, n.last_access)
        for n in c.tree.nodes()
    )  # fmt: skip
    return nodes, c.stats()


# -- match_prefix --------------------------------------------------------------------------------


def test_a_match_changes_nothing_that_is_cached():
    with CaseCache(32, 32) as c:
        c.put_on_host(A)
        c.put(B)
        assert c.drain(LONG)
        before = c.device, c.host
        for tokens in (A, A[:5], B, B[:7], [*A, 1, 2, 3, 4], [], [1]):
            c.hit(tokens)
        assert (c.device, c.host) == before
        assert c.hit(A) == (0, 8) and c.hit(B) == (8, 0)


def test_the_parts_of_a_match_exclude_each_other_and_name_their_pages():
    abc = list(range(16))
    with CaseCache(32, 32) as c:
        c.put_on_host(abc)
        load = c.start_load(abc[:8])
        assert load.wait(LONG)
        c.release(load)
        match = c.match_prefix([*abc, 99])
        assert (match.device_tokens, match.host_tokens, match.storage_tokens) == (8, 8, 0)
        for pages in (match.device_pages, match.host_pages):
            assert pages.dtype == np.int64 and pages.shape == (2,)
        assert c.holds(match.device_pages, abc[:8])
        with pytest.raises(AttributeError):
            match.device_tokens = 0  # frozen


def test_creation_is_the_first_hit_and_only_counted_matches_add_to_it():
    with CaseCache(32, 32) as c:
        c.put(A)
        (node,) = c.tree.nodes()
        assert node.hits == 1
        c.hit(A, count=False)
        c.put(A)
        c.insert(A, c.match_prefix(A, count=False).device_pages)
        assert node.hits == 1
        c.hit(A)
        assert node.hits == 2
        c.hit([*A, 1, 2, 3, 4])
        assert node.hits == 3


def test_a_look_without_count_does_not_change_what_is_evicted_next():
    with CaseCache(32, 32) as c:
        for prompt in (A, B):
            c.put(prompt)
        assert c.drain(LONG)
        c.hit(A, count=False)
        c.evict_device(8)
        assert c.hit(A, count=False) == (0, 8) and c.hit(B, count=False) == (8, 0)


def test_a_counted_match_changes_what_is_evicted_next():
    with CaseCache(32, 32) as c:
        for prompt in (A, B):
            c.put(prompt)
        assert c.drain(LONG)
        c.hit(A)
        c.evict_device(8)
        assert c.hit(A, count=False) == (8, 0) and c.hit(B, count=False) == (0, 8)


@pytest.mark.parametrize("use", ["match", "insert"])
def test_only_the_part_that_matched_counts_as_used(use):
    long_ = list(range(16))
    with CaseCache(64, 64) as c:
        c.put(long_)
        c.put(B)
        assert c.drain(LONG)
        other = [*long_[:8], 50, 51, 52, 53]
        c.hit(other) if use == "match" else c.put(other)
        assert c.drain(LONG)
        c.evict_device(8)  # the tail of the long one is the oldest now
        assert c.hit(long_, count=False) == (8, 8) and c.hit(B, count=False) == (8, 0)
        c.evict_device(8)
        assert c.hit(long_, count=False) == (8, 8) and c.hit(B, count=False) == (0, 8)


# -- insert --------------------------------------------------------------------------------------


def test_surplus_pages_stay_the_callers():
    with CaseCache(32, 0) as c:
        pages = c.allocate(5)
        result = c.insert(A, pages)
        assert result.pages.tolist() == pages[:2].tolist()
        assert c.device == (12, 8, 0, 12)
        c.free(pages[2:])
        with pytest.raises(ValueError, match="cached"):
            c.free(pages[:1])


def test_the_last_partial_page_stays_the_requests_own():
    with CaseCache(32, 0) as c:
        pages = c.allocate(3)
        result = c.insert([*A, 1, 2], pages)
        assert (result.inserted_tokens, len(result.pages)) == (8, 2)
        c.free(pages[2:])
        assert c.device.owned == 0


def test_too_few_pages_change_nothing():
    with CaseCache(32, 32) as c:
        c.put(A)
        pages = c.allocate(2)
        assert c.drain(LONG)
        before = state(c)
        with pytest.raises(ValueError, match=r"3 whole pages.*2 pages"):
            c.insert([*A, 1, 2, 3, 4], pages)
        with pytest.raises(ValueError, match=r"1 whole pages.*0 pages"):
            c.insert(B[:4], [])
        assert state(c) == before


def test_the_trees_own_page_at_its_own_place_is_allowed_and_never_freed():
    longer = [*A, 1, 2, 3, 4]
    with CaseCache(32, 32) as c:
        c.put(A)
        own = c.match_prefix(A).device_pages
        result = c.insert(longer, np.concatenate([own, c.compute_tail(longer, 8)]))
        assert (result.duplicate_tokens, result.inserted_tokens) == (8, 4)
        assert result.pages[:2].tolist() == own.tolist()
        assert c.device.owned == 0 and c.device.free == 20
        again = c.insert(longer, result.pages)
        assert (again.duplicate_tokens, again.inserted_tokens) == (12, 0)
        assert c.device.free == 20


def test_the_trees_own_page_at_another_place_is_refused():
    with CaseCache(32, 32) as c:
        c.put(A)
        own = c.match_prefix(A).device_pages
        mine = c.allocate(1)
        assert c.drain(LONG)
        before = state(c)
        for tokens, pages in ((A, own[::-1]), (B, own), ([*A, 1, 2, 3, 4], [*own, own[0]]),
                              ([*A, 1, 2, 3, 4], [mine[0], own[1], own[0]])):  # fmt: skip
            with pytest.raises(ValueError):
                c.insert(tokens, pages)
        assert state(c) == before


@pytest.mark.parametrize("wrong", ["free", "reserved", "of a load", "twice", "outside"])
def test_pages_that_are_not_the_callers_are_refused(wrong):
    with CaseCache(32, 32, device_reserved=[6]) as c:
        c.put_on_host(B)
        load = c.start_load(B)
        mine = c.allocate(2)
        c.drain(LONG)
        bad = {"free": 7, "reserved": 6, "of a load": load.pages[0], "twice": mine[0], "outside": 8}
        before = state(c)
        with pytest.raises(ValueError):
            c.insert(A, [mine[0], bad[wrong]])
        assert state(c) == before
        c.release(load)


def test_duplicates_are_freed_and_the_result_names_the_pages_to_use():
    with CaseCache(32, 32) as c:
        first = c.put(A)
        longer = [*A, 1, 2, 3, 4]
        pages = c.compute(longer)
        result = c.insert(longer, pages)
        assert (result.duplicate_tokens, result.inserted_tokens) == (8, 4)
        assert result.pages.tolist() == [*first.pages, pages[2]]
        assert c.device.free == 20 and c.device.owned == 0
        assert c.holds(result.pages, longer)


def test_a_host_only_node_adopts_the_callers_pages():
    with CaseCache(32, 32) as c:
        c.put_on_host(A)
        saved = c.stats().saved_tokens
        pages = c.compute(A)
        result = c.insert(A, pages)
        assert (result.duplicate_tokens, result.inserted_tokens) == (0, 8)
        assert result.pages.tolist() == pages.tolist()
        assert c.drain(LONG) and c.stats().saved_tokens == saved  # it is saved already
        assert c.hit(A) == (8, 0) and c.host.evictable == 8


def test_lock_true_keeps_the_prefix_until_the_handle_is_unlocked():
    with CaseCache(32, 32) as c:
        result = c.put(A, lock=True)
        assert (result.handle.device_tokens, result.handle.host_tokens) == (8, 0)
        assert c.drain(LONG)
        assert c.evict_device(8) == 0 and c.evict_host(8) == 0
        c.unlock(result.handle)
        assert c.evict_device(8) == 8
        assert c.put(B).handle is None and c.put([1, 2, 3, 4], lock=False).handle is None


def test_the_handle_held_so_far_is_released_once_the_new_path_is_locked():
    longer = [*A, 1, 2, 3, 4]
    with CaseCache(12, 32) as c:
        first = c.put(A, lock=True)
        pages = np.concatenate([first.pages, c.compute_tail(longer, 8)])
        second = c.insert(longer, pages, lock=first.handle)
        assert c.drain(LONG) and c.device == (0, 0, 12, 0)
        with pytest.raises(ValueError, match="unlocked already"):
            c.unlock(first.handle)
        with pytest.raises(ValueError, match="unlocked already"):
            c.insert(longer, second.pages, lock=first.handle)
        c.unlock(second.handle)
        assert c.device == (0, 12, 0, 0) and set(c.locks()) == {0}


# -- lock ----------------------------------------------------------------------------------------


def test_a_lock_protects_both_copies_and_host_only_parts():
    abc = list(range(16))
    with CaseCache(32, 32) as c:
        c.put_on_host(abc)
        load = c.start_load(abc[:8])
        assert load.wait(LONG)
        c.release(load)
        handle = c.lock(c.match_prefix(abc))
        assert (handle.device_tokens, handle.host_tokens) == (8, 8)
        assert c.device == (24, 0, 8, 0) and c.host == (16, 0, 16, 0)
        assert c.evict_device(32) == 0 and c.evict_host(32) == 0
        c.unlock(handle)
        assert c.evict_host(32) == 16 and c.evict_device(32) == 8


def test_a_handle_says_what_is_still_cached_of_the_match():
    with CaseCache(32, 32) as c:
        c.put(A)
        assert c.drain(LONG)
        match = c.match_prefix(A)
        c.evict_device(4)
        handle = c.lock(match)
        assert (handle.device_tokens, handle.host_tokens) == (4, 4)
        c.unlock(handle)
        c.evict_device(8)
        c.evict_host(4)
        handle = c.lock(match)
        assert (handle.device_tokens, handle.host_tokens) == (0, 4)
        c.unlock(handle)
        c.evict_host(4)
        handle = c.lock(match)
        assert (handle.device_tokens, handle.host_tokens) == (0, 0)
        c.unlock(handle)


def test_a_device_part_that_moved_is_not_protected_under_its_old_pages():
    """The match names pages that are somebody else's by now; the tokens came back elsewhere."""
    ab = [*A, 1, 2, 3, 4]
    with CaseCache(32, 32) as c:
        c.put(ab)
        assert c.drain(LONG)
        c.evict_device(4)
        match = c.match_prefix(ab)
        assert (match.device_tokens, match.host_tokens) == (8, 4)
        c.evict_device(8)
        others = c.compute(B)
        assert set(others) & set(match.device_pages)
        back = c.start_load(A)
        assert back.wait(LONG) and c.poll() == 1
        c.release(back)
        handle = c.lock(match)
        assert (handle.device_tokens, handle.host_tokens) == (0, 12)
        c.unlock(handle)
        assert c.load_back(match) is None
        assert c.device == (16, 8, 0, 8)
        c.free(others)


# -- poll ----------------------------------------------------------------------------------------


def test_poll_takes_in_at_most_the_limit_and_says_how_many():
    with CaseCache(64, 64, acks="poll") as c:
        with hold(c.cache, "d2h"):
            for prompt in (A, B, [1, 2, 3, 4]):
                c.put(prompt)
            assert c.poll() == 0
        c.settle()
        assert c.stats().saves_in_flight == 3
        assert [c.poll(0), c.poll(2), c.poll(5), c.poll()] == [0, 2, 1, 0]
        assert c.stats().saves_in_flight == 0 and c.host.evictable == 20


def test_polled_acks_are_taken_in_in_the_order_of_submission():
    """Ranks that make the same calls make the same decisions, whichever copy ends first."""
    with CaseCache(64, 64, acks="poll") as c:
        c.put(A)
        assert c.drain(LONG)
        c.evict_device(8)
        with hold(c.cache, "d2h"):
            c.put(B)
            load = c.start_load(A)
            assert load.wait(LONG)
            assert c.poll() == 0  # the save was submitted first
            assert not c.drain(0.1)
        assert c.drain(LONG)
        assert c.hit(A) == (8, 0)
        c.release(load)
