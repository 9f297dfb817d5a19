"""When a prompt is saved: at insert, from its n-th hit on, or on its way out."""

from __future__ import annotations

import threading

import pytest
from case_cache import LONG, CaseCache

import hicache_nsa as hc
from hicache_nsa.testing import fail_next, hold

A = list(range(8))
B = [*range(4), *range(104, 112)]  # shares the first page with A
C = list(range(500, 508))


def selective(threshold: int, **options) -> CaseCache:
    return CaseCache(
        32, 32, write_policy="write_through_selective", write_threshold=threshold, **options
    )


def written_back(device: int, host: int, **options) -> CaseCache:
    return CaseCache(device, host, write_policy="write_back", **options)


# -- selective ----------------------------------------------------------------------------------


def test_a_prompt_is_saved_from_its_second_hit_on():
    with selective(2) as c:
        c.put(A)
        assert c.stats().saves_in_flight == 0 and c.drain(LONG) and sum(c.host[1:]) == 0
        assert c.hit(A, count=False) == (8, 0) and c.drain(LONG) and sum(c.host[1:]) == 0
        assert c.hit(A) == (8, 0) and c.drain(LONG)
        assert c.host_is(A) and c.stats().saved_tokens == 8
        c.hit(A)
        assert c.drain(LONG) and c.stats().saved_tokens == 8


@pytest.mark.parametrize("threshold", [1, 2, 3, 5])
def test_the_threshold_counts_the_insert_and_each_counted_match(threshold):
    with selective(threshold) as c:
        c.put(A)
        for hits in range(1, 7):
            assert c.drain(LONG)
            saved = c.stats().saved_tokens
            assert saved == (8 if hits >= threshold else 0), (hits, saved)
            c.put(A)  # duplicates: no hit
            c.hit(A)


def test_only_what_was_matched_is_saved_and_parents_first():
    with selective(2) as c:
        c.put(A)
        c.hit(A[:4])
        assert c.drain(LONG) and c.stats().saved_tokens == 4 and c.host_is(A[:4])
        c.put(B)
        c.hit(B)
        assert c.drain(LONG) and c.host_is(B) and c.stats().saved_tokens == 12
        c.evict_device(32)
        assert c.hit(A, count=False) == (0, 4) and c.hit(B, count=False) == (0, 12)
        assert c.stats().dropped_tokens == 4


def test_a_save_that_failed_is_tried_again_at_the_next_hit():
    with selective(2) as c:
        c.put(A)
        fail_next(c.cache, "d2h", 0)
        c.hit(A)
        assert c.drain(LONG) and c.stats().failed_saves == 1 and sum(c.host[1:]) == 0
        c.hit(A)
        assert c.drain(LONG) and c.host_is(A)


# -- write back -----------------------------------------------------------------------------------


def test_nothing_is_saved_before_it_is_evicted():
    with written_back(32, 32) as c:
        for prompt in (A, B, C):
            c.put(prompt)
            c.hit(prompt)
        c.poll()
        assert c.drain(LONG) and c.stats().saved_tokens == 0 and c.host.free == 32
        assert c.evict_device(4) == 4 and c.drain(LONG)
        assert c.hit(A, count=False) == (4, 4) and c.stats().saved_tokens == 8


def test_what_has_a_host_copy_leaves_at_once():
    with written_back(16, 16) as c:
        c.put_on_host(A)
        load = c.start_load(A)
        assert load.wait(LONG)
        c.release(load)
        c.poll()
        with hold(c.cache, "d2h"):
            assert c.hit(A, count=False) == (8, 0)
            assert c.evict_device(4) == 4 and c.device.free == 12
        assert c.stats().saved_tokens == 8


def test_a_shared_parent_leaves_after_the_last_of_its_children():
    with written_back(32, 32) as c:
        c.put(A)
        c.put(B)
        with hold(c.cache, "d2h"):
            assert c.evict_device(32) == 16
            assert c.device.locked == 16 and c.hit(A) == (8, 0) and c.hit(B) == (12, 0)
        assert c.drain(LONG)
        assert c.device.free == 32 and c.hit(A) == (0, 8) and c.hit(B) == (0, 12)
        assert c.host_is(A) and c.host_is(B) and c.stats().saved_tokens == 16


@pytest.mark.parametrize("limit", [1, 2])
def test_acks_one_by_one(limit):
    with written_back(32, 32, acks="poll") as c:
        c.put(A)
        c.put(B)
        c.put(C)
        assert c.evict_device(32) == 24
        c.settle("d2h")
        freed = []
        while c.poll(limit):
            freed.append(c.device.free)
        assert freed == sorted(freed) and freed[-1] == 32


def test_a_lock_taken_meanwhile_keeps_it_on_the_device():
    with written_back(16, 16) as c:
        c.put(A)
        with hold(c.cache, "d2h"):
            assert c.evict_device(8) == 8
            handle = c.lock(c.match_prefix(A))
        assert c.drain(LONG)
        assert c.hit(A) == (8, 0) and c.host_is(A) and c.device.locked == 8
        c.unlock(handle)
        assert c.evict_device(8) == 8 and c.device.free == 16  # at once: it is saved


def test_a_lock_on_its_first_page_keeps_that_page_only():
    with written_back(16, 16) as c:
        c.put(A)
        with hold(c.cache, "d2h"):
            assert c.evict_device(8) == 8
            handle = c.lock(c.match_prefix(A[:4]))
        assert c.drain(LONG)
        assert c.hit(A) == (4, 4) and c.host_is(A)
        c.unlock(handle)


def test_a_page_inserted_below_keeps_what_is_above_on_the_device():
    longer = [*A, 77, 78, 79, 80]
    with written_back(24, 16) as c:
        c.put(A)
        with hold(c.cache, "d2h"):
            assert c.evict_device(8) == 8
            c.insert(longer, c.compute(longer))
            assert c.hit(longer) == (12, 0)
        assert c.drain(LONG)
        assert c.hit(longer) == (12, 0) and c.evict_device(16) == 12 and c.drain(LONG)
        assert c.hit(longer) == (0, 12) and c.host_is(longer)


def test_a_match_that_splits_what_is_leaving():
    with written_back(16, 16) as c:
        c.put(A)
        with hold(c.cache, "d2h"):
            assert c.evict_device(5) == 8
            assert c.hit(A[:4]) == (4, 0)
        assert c.drain(LONG)
        assert c.device.free == 16 and c.hit(A) == (0, 8) and c.host_is(A)


def test_a_flush_finishes_the_saves_and_keeps_them():
    with written_back(16, 16) as c:
        c.put(A)
        c.put(C)
        assert c.evict_device(8) == 8
        report = c.reset()
        assert (report.kept_host_tokens, report.dropped_tokens) == (8, 8)
        assert c.hit(A) == (0, 8) and c.hit(C) == (0, 0) and c.device.free == 16


def test_without_a_host_tier_pages_are_dropped():
    with written_back(16, 0) as c:
        c.put(A)
        assert c.evict_device(8) == 8 and c.device.free == 16 and c.hit(A) == (0, 0)


def test_load_back_starts_the_saves_in_its_way_and_comes_again():
    with written_back(16, 32) as c:
        c.put_on_host(A)
        c.put(C)
        c.put(list(range(700, 708)))
        match = c.match_prefix(A)
        with hold(c.cache, "d2h"):
            assert match.host_tokens == 8 and c.load_back(match) is None
            assert c.device.locked == 8
        assert c.drain(LONG) and c.device.free == 8
        load = c.load_back(match)
        assert load is not None and load.wait(LONG) and c.holds(load.pages, A)
        c.release(load)
        assert c.hit(C) == (0, 8) and c.host_is(C)


def test_poll_demotes_ahead_of_need():
    with written_back(32, 32, low_water=0.25) as c:
        for first in (0, 100, 200, 300):
            c.put(range(first, first + 8))
        assert c.device.free == 0
        c.poll()
        assert c.drain(LONG)
        assert c.device.free == 8 and c.hit(range(8), count=False) == (0, 8)
        c.poll()
        assert c.drain(LONG) and c.device.free == 8
        with hold(c.cache, "d2h"):
            pages = c.allocate(2)  # no copy in its way
        c.free(pages)


def test_allocate_waits_without_the_lock():
    """Others go on while one waits for a save."""
    with written_back(8, 8) as c:
        c.put(A)
        got: list[int] = []
        gate = hold(c.cache, "d2h")
        gate.__enter__()
        assert c.evict_device(8) == 8
        gate.__exit__(None, None, None)
        thread = threading.Thread(target=lambda: got.extend(c.cache.allocate(2)))
        thread.start()
        while thread.is_alive():
            assert c.cache.match_prefix(A).tokens == 8
        thread.join(LONG)
        assert len(got) == 2 and c.host_is(A)
        c.free(got)


def test_with_polled_acks_allocate_says_what_to_do():
    with written_back(8, 8, acks="poll") as c:
        c.put(A)
        with pytest.raises(hc.OutOfPages, match=r"poll\(\) or drain\(\)"):
            c.allocate(2)
        assert c.drain(LONG)
        pages = c.allocate(2)
        assert c.hit(A) == (0, 8)
        c.free(pages)


# -- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"low_water": 0.1}, ValueError, "only write_policy='write_back'"),
        ({"low_water": 0.6, "write_policy": "write_back"}, ValueError, "between 0 and 0.5"),
        ({"low_water": -0.1, "write_policy": "write_back"}, ValueError, "low_water=-0.1"),
        ({"low_water": "1", "write_policy": "write_back"}, TypeError, "got str"),
        ({"write_threshold": 0}, ValueError, "write_threshold"),
    ],
)
def test_bad_options(options, error, text):
    with pytest.raises(error, match=text):
        CaseCache(8, 8, **options)
