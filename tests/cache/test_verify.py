"""verify: a host copy that is not what was saved is a miss, counted, and never served again."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from engine import PAGE
from small_cache import LONG, SmallCache

import hicache_nsa as hc
from hicache_nsa import testing

A = list(range(100, 116))  # four pages
B = A[:8] + list(range(200, 208))  # shares two of them
C = A + list(range(300, 308))  # two more below A


def verified(device_pages: int = 16, host_pages: int = 16, **options) -> SmallCache:
    return SmallCache(device_pages, host_pages, verify="all", **options)


def host_page(cache: SmallCache, tokens: list[int], index: int) -> int:
    match = cache.match_prefix(tokens, count=False)
    return int(match.host_pages[index - len(match.device_pages)])


def spoil(cache: SmallCache, tokens: list[int], index: int, layer: int = 1) -> int:
    page = host_page(cache, tokens, index)
    testing.corrupt(cache.cache, page, layer, 5)
    return page


def ended(load: hc.LoadBack) -> str | None:
    for each in load._loads:
        assert each.ticket.wait_end(LONG)
    return load.error


def test_without_verify_nothing_is_looked_at() -> None:
    for options in ({}, {"verify": "off"}):
        cache = SmallCache(16, 16, **options)
        cache.put_on_host(A)
        spoil(cache, A, 2)
        load = cache.start(A)
        assert ended(load) is None
        cache.end(load)
        stats = cache.stats()
        assert (stats.verified_pages, stats.corrupt_pages, stats.failed_loads) == (0, 0, 0)
        assert not cache.host_pool.digests.in_use


def test_what_lies_before_the_wrong_page_stays_and_the_rest_is_computed_anew() -> None:
    cache = verified()
    cache.put_on_host(A)
    spoil(cache, A, 2)
    load = cache.start(A)
    assert ended(load) is not None
    cache.poll()
    assert cache.hit(A) == (0, 2 * PAGE)
    cache.end(load)
    again = cache.start(A)
    assert ended(again) is None and again.tokens == 2 * PAGE
    cache.put_behind(again, A)
    cache.end(again)
    assert cache.drain(LONG)
    assert cache.hit(A) == (4 * PAGE, 0)
    cache.evict_device(10**6)
    last = cache.start(A)
    assert ended(last) is None and last.tokens == 4 * PAGE
    cache.end(last)
    assert cache.hit(A) == (4 * PAGE, 0)


def test_branches_below_a_wrong_page_go_and_those_beside_it_stay() -> None:
    cache = verified()
    cache.put_on_host(B, C)
    spoil(cache, C, 2)
    load = cache.start(A)
    assert ended(load) is not None
    cache.poll()
    cache.end(load)
    assert cache.hit(C) == (0, 2 * PAGE)
    assert cache.hit(B) == (0, 4 * PAGE)
    assert cache.host == (12, 4, 0, 0)
    assert cache.stats().dropped_tokens == 4 * PAGE


def test_all_who_share_a_load_see_it_fail() -> None:
    cache = verified()
    cache.put_on_host(A)
    spoil(cache, A, 3)
    with testing.hold(cache.cache, "h2d"):
        loads = [cache.start(A), cache.start(A), cache.start(A[:8])]
    assert cache.loads_submitted() == 1
    assert all(ended(load) is not None for load in loads)
    cache.poll()
    for load in loads:
        with pytest.raises(hc.TransferError, match="what was saved"):
            load.wait(LONG)
        cache.end(load)
    assert cache.hit(A) == (0, 3 * PAGE)
    assert cache.locks() == {0}


def test_a_cancelled_load_still_tells_what_it_found() -> None:
    cache = verified()
    cache.put_on_host(A)
    spoil(cache, A, 1)
    with testing.hold(cache.cache, "h2d"):
        cache.end(cache.start(A), "cancel")
    cache.settle()
    cache.poll()
    assert cache.hit(A) == (0, PAGE)
    assert cache.stats().corrupt_pages == 1


def test_a_load_behind_a_cancelled_one_reads_the_same_pages() -> None:
    """The first one's ack takes the pages out of the tree; they are free at the second one's."""
    cache = verified(acks="poll")
    cache.put_on_host(C)
    spoil(cache, C, 1)
    with testing.hold(cache.cache, "h2d"):
        cache.end(cache.start(A), "cancel")
        second = cache.start(C)
    cache.settle()
    assert cache.poll(1) == 1
    assert cache.hit(C) == (0, 0)
    assert cache.host == (10, 0, 6, 0)
    assert second.error is not None
    assert cache.poll(1) == 1
    cache.end(second)
    assert cache.host == (16, 0, 0, 0)
    assert cache.stats().corrupt_pages == 2


def test_a_load_below_keeps_its_host_pages_until_it_has_ended() -> None:
    """An insert has brought what lies above: the lower load brings right bytes, but its host copies
    have a gap before them.
    """
    cache = verified(acks="poll")
    cache.put_on_host(C)
    spoil(cache, C, 2)
    with testing.hold(cache.cache, "h2d"):
        upper = cache.start(A)
        cache.insert(A, cache.compute(A))
        lower = cache.start(C)
        assert lower.tokens == 2 * PAGE
    cache.settle()
    assert cache.poll(1) == 1
    assert upper.error is not None and lower.error is None
    assert cache.hit(A) == (4 * PAGE, 0)
    assert cache.hit(C) == (4 * PAGE, 0)
    assert cache.host == (14, 0, 2, 0)
    assert cache.poll(1) == 1
    assert lower.error is None and cache.holds(lower.pages, C, 4)
    assert cache.host == (16, 0, 0, 0)
    cache.end(upper)
    cache.end(lower)
    assert cache.drain(LONG)
    assert cache.hit(C) == (4 * PAGE, 0)
    assert cache.device[3] == cache.host[3] == 0


def test_device_copies_that_came_meanwhile_stay_and_are_saved_anew() -> None:
    """The node is on the device in part: its upper part stays, the rest goes."""
    cache = verified()
    cache.put_on_host(A)
    spoil(cache, A, 1)
    with testing.hold(cache.cache, "h2d"):
        load = cache.start(A)
        cache.insert(A[:12], cache.compute(A[:12]))
    assert ended(load) is not None
    cache.poll()
    cache.end(load)
    assert cache.hit(A) == (3 * PAGE, 0)
    assert cache.host == (15, 1, 0, 0)
    cache.put(A)
    assert cache.drain(LONG)
    cache.evict_device(10**6)
    assert cache.hit(A) == (0, 4 * PAGE)
    again = cache.start(A)
    assert ended(again) is None
    cache.end(again)


def test_locks_and_pins_do_not_keep_a_wrong_copy() -> None:
    cache = verified()
    cache.put_on_host(C)
    spoil(cache, C, 3)
    match = cache.match_prefix(C, count=False)
    handle = cache.lock(match)
    pin = cache.pin(cache.match_prefix(A[:8], count=False), 1000)
    load = cache.start(A)
    assert ended(load) is not None
    cache.poll()
    cache.end(load)
    assert cache.hit(C) == (0, 3 * PAGE)
    assert cache.pinned == (0, 2)
    assert cache.host == (13, 0, 3, 0)
    cache.put(C)  # beside the node that the handle still knows
    cache.unlock(handle)
    pin.release()
    assert cache.drain(LONG)
    assert cache.locks() == {0}
    assert cache.hit(C) == (6 * PAGE, 0)


@pytest.mark.parametrize("acked", [False, True])
def test_what_was_inserted_behind_the_load_is_dropped(acked: bool) -> None:
    """Also if the ack has taken the load's nodes out of the tree before the insert comes."""
    cache = verified()
    cache.put_on_host(A)
    spoil(cache, A, 0)
    with testing.hold(cache.cache, "h2d"):
        load = cache.start(A)
        if not acked:
            cache.put_behind(load, C)
    assert ended(load) is not None
    cache.poll()
    if acked:
        with pytest.raises(ValueError, match="other tokens"):
            other = [1, *C[1:]]
            cache.insert(other, np.concatenate([load.pages, cache.allocate(2)]))
        cache.put_behind(load, C)
    cache.end(load)
    assert cache.hit(C) == (0, 0)
    assert cache.drain(LONG)
    owned = 2 if acked else 0  # those of the refused insert
    assert cache.device == (16 - owned, 0, 0, owned)
    assert cache.host == (16, 0, 0, 0)


def test_write_back() -> None:
    cache = verified(8, 16, write_policy="write_back")
    cache.put(A)
    cache.evict_device(10**6)
    assert cache.drain(LONG)
    assert cache.hit(A) == (0, 4 * PAGE)
    spoil(cache, A, 2)
    with testing.hold(cache.cache, "h2d"):
        load = cache.start(A)
        more = cache.put(B)
    assert ended(load) is not None
    cache.poll()
    cache.end(load)
    assert len(more.pages) == 4
    assert cache.hit(A) == (2 * PAGE, 0)
    cache.evict_device(10**6)
    assert cache.drain(LONG)
    assert cache.hit(B) == (0, 4 * PAGE)
    again = cache.start(B)
    assert ended(again) is None
    cache.end(again)


def test_invalidate_takes_over_what_loads_in_flight_read() -> None:
    cache = verified(acks="poll")
    cache.put_on_host(C)
    spoil(cache, C, 1)
    with testing.hold(cache.cache, "h2d"):
        cache.end(cache.start(A), "cancel")
        second = cache.start(C)
    cache.settle()
    assert cache.poll(1) == 1
    assert cache.host == (10, 0, 6, 0)
    cache.invalidate()
    assert cache.host == (10, 0, 6, 0)
    assert cache.drain(LONG)
    cache.end(second)
    assert cache.host == (16, 0, 0, 0)
    assert cache.device == (16, 0, 0, 0)


def test_digests_outlive_a_flush_and_follow_the_page() -> None:
    cache = verified()
    cache.put_on_host(A)
    cache.reset()
    digests = cache.host_pool.digests
    page = host_page(cache, A, 0)
    known = [digests.get(page, layer) for layer in range(3)]
    assert all(known)
    for layer in range(3):
        owners = [b.name for b in cache.format.buffers if layer in b.layers]
        views = [cache.host_pool.page_view(name, layer, page) for name in owners]
        assert hc._core.page_digest(np.concatenate(views)) == known[layer]
    spoil(cache, A, 0, layer=0)
    load = cache.start(A)
    assert ended(load) is not None
    cache.poll()
    cache.end(load)
    assert cache.hit(A) == (0, 0)
    cache.put_on_host(B, A)  # into the same host pages
    for tokens in (A, B):
        load = cache.start(tokens)
        assert ended(load) is None
        cache.end(load)


def test_a_page_whose_digest_is_not_known_is_not_checked() -> None:
    cache = verified()
    cache.put_on_host(A)
    page = spoil(cache, A, 2)
    cache.host_pool.digests.forget(page)
    load = cache.start(A)
    assert ended(load) is None
    cache.end(load)
    assert cache.stats().verified_pages == 3


def test_a_sample_finds_it_in_the_end_and_fails_few_loads() -> None:
    cache = SmallCache(16, 16, verify="sample")
    cache.put_on_host(A)
    spoil(cache, A, 3)
    loads = 0
    for _ in range(400):
        loads += 1
        load = cache.start(A)
        error = ended(load)
        cache.poll()
        cache.end(load)
        if error is not None:
            break
        cache.evict_device(10**6)
    stats = cache.stats()
    assert stats.corrupt_pages == stats.failed_loads == 1
    assert stats.verified_pages < 2 * loads + 4
    assert cache.hit(A) == (0, 3 * PAGE)


def test_counters_never_fall_and_outlive_the_engine() -> None:
    cache = verified()
    seen = [(0, 0)]
    for _ in range(3):
        cache.put_on_host(A)
        spoil(cache, A, 1)
        load = cache.start(A)
        ended(load)
        cache.poll()
        cache.end(load)
        cache.clear()
        stats = cache.stats()
        seen.append((stats.verified_pages, stats.corrupt_pages))
    assert all(a < b for a, b in pairwise(seen))
    engine = cache.engine
    cache.cache.close()
    assert engine.counters()["h2d"]["corrupt"] == 3


def test_an_unknown_word_is_refused_before_anything_is_made() -> None:
    for value, error in (("some", ValueError), (True, TypeError), (None, TypeError)):
        with pytest.raises(error, match="verify"):
            SmallCache(4, 4, verify=value)


def test_corrupt_flips_one_bit_of_the_byte_that_it_is_told() -> None:
    cache = verified()
    pool = cache.host_pool
    with pytest.raises(ValueError, match="byte 1088: layer 2 of a page has 1088 bytes"):
        testing.corrupt(cache.cache, 3, 2, 1088)
    for byte, place in (
        (0, pool.offset("latent", 2, 3)),
        (1087, pool.offset("index_k", 2, 3) + 527),
    ):
        before = pool.view().copy()
        testing.corrupt(pool, 3, 2, byte)
        changed = np.flatnonzero(before != pool.view())
        assert changed.tolist() == [place]
        assert before[place] ^ pool.view()[place] in (1, 2, 4, 8, 16, 32, 64, 128)
