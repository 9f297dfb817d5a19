"""F04, F05, F24 to F26 under write back: saved on the way out, withheld until then, never half."""

from __future__ import annotations

import pytest
from case_cache import LONG, CaseCache

import hicache_nsa as hc
from hicache_nsa.testing import fail_next, hold

A = list(range(8))
Q = list(range(900, 904))
CHAIN = list(range(12))
layouts = pytest.mark.parametrize("layout", ["page_first", "layer_first", "page_first_direct"])


def written_back(device: int, host: int, **options) -> CaseCache:
    return CaseCache(device, host, write_policy="write_back", **options)


@layouts
def test_f04_pages_are_withheld_until_their_bytes_are_safe(layout):
    """D=8, H=8, P=4: A is on the device only, and evicted while no save can run."""
    with written_back(8, 8, layout=layout) as c:
        c.put(A)
        with hold(c.cache, "d2h"):
            assert c.evict_device(8) == 8
            assert c.device == (0, 0, 8, 0) and c.hit(A) == (8, 0)
            with pytest.raises(hc.OutOfPages, match="2 of the locked ones leave once"):
                c.allocate(1)
            assert c.evict_device(8) == 0
        assert c.drain(LONG)
        assert c.device.free == 8 and c.hit(A) == (0, 8)
        z = c.allocate(2)
        assert c.host_is(A)
        c.free(z)


def test_f04_allocate_waits_for_the_saves_that_it_needs():
    with written_back(16, 16) as c:
        c.put(A)
        c.put(Q)
        pages = c.allocate(4)  # 1 free page, 3 to be had: the oldest prompt and a part of the next
        assert len(pages) == 4 and c.host_is(A)
        assert c.hit(A) == (0, 8) and c.stats().evicted_device_tokens == 12
        c.free(pages)


def test_f25_without_room_on_host_a_prompt_is_dropped_whole():
    """D=16, H=4, P=4: the host tier holds Q, which is locked."""
    with written_back(16, 4) as c:
        c.put_on_host(Q)
        handle = c.lock(c.match_prefix(Q))
        c.put(A)
        assert c.evict_device(8) == 8
        assert c.hit(A) == (0, 0) and c.host.free == 0 and c.hit(Q) == (0, 4)
        assert c.stats().dropped_tokens == 8 and c.stats().refused_save_tokens == 8
        c.unlock(handle)
        assert c.host_is(Q)


def test_f25_where_only_the_head_fits_the_tail_is_dropped():
    with written_back(16, 8) as c:
        c.put_on_host(Q)
        handle = c.lock(c.match_prefix(Q))
        c.put(A)
        assert c.evict_device(16) == 8
        assert c.drain(LONG)
        assert c.hit(A) == (0, 4) and c.host_is(A[:4]) and c.device.free == 16
        c.unlock(handle)


@pytest.mark.parametrize("chained", [False, True])
def test_f26_a_whole_path_in_one_call(chained):
    with written_back(16, 16) as c:
        for end in (4, 8, 12) if chained else (12,):
            c.put(CHAIN[:end])
        assert c.evict_device(12) == 12
        assert c.drain(LONG)
        assert (c.device.free, c.host.free) == (16, 4)
        assert c.hit(CHAIN) == (0, 12) and c.host_is(CHAIN)
        assert c.stats().saved_tokens == 12  # each page once


def test_f26_a_part_of_a_path_leaves_the_rest():
    with written_back(16, 16) as c:
        for end in (4, 8, 12):
            c.put(CHAIN[:end])
        assert c.evict_device(5) == 8
        assert c.drain(LONG)
        assert c.hit(CHAIN) == (4, 8) and c.host_is(CHAIN)
        assert c.evict_device(4) == 4 and c.device.free == 16  # it has been saved with the others


def test_f05_what_could_not_be_saved_stays_on_the_device():
    with written_back(16, 16) as c:
        c.put(A)
        fail_next(c.cache, "d2h", 1)
        assert c.evict_device(8) == 8
        assert c.drain(LONG)
        assert c.hit(A) == (8, 0) and c.host.free == 16 and c.locks() == [0]
        assert c.stats().failed_saves == 1 and c.stats().evicted_device_tokens == 0
        assert c.evict_device(8) == 8 and c.drain(LONG)
        assert c.hit(A) == (0, 8) and c.host_is(A)


@pytest.mark.parametrize("failures", [0, 1, 2])
def test_f05_allocate_saves_again_and_then_drops(failures):
    with written_back(8, 8) as c:
        c.put(A)
        for _ in range(failures):
            fail_next(c.cache, "d2h", 0)
        pages = c.allocate(2)
        assert c.hit(A) == ((0, 8) if failures < 2 else (0, 0))
        assert c.stats().failed_saves == failures
        assert c.stats().dropped_tokens == (8 if failures == 2 else 0)
        c.free(pages)


def test_f24_no_child_has_a_host_copy_that_its_parent_lacks():
    """D=32, H=8: Q fills the host tier while A is evicted; then A with B below it are, too."""
    q, longer = list(range(900, 908)), [*A, 8, 9, 10, 11]
    with written_back(32, 8) as c:
        c.put_on_host(q)
        handle = c.lock(c.match_prefix(q))
        c.put(longer)
        assert c.evict_device(4) == 4 and c.hit(longer) == (8, 0)  # no room: B is dropped
        c.unlock(handle)
        assert c.evict_host(8) == 8
        c.put(longer)
        assert c.evict_device(32) == 12 and c.drain(LONG)
        assert c.hit(longer) == (0, 8) and c.host_is(A)  # room for A alone
        assert c.device.free == 32 and c.host.free == 0
