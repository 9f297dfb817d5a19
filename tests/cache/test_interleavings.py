"""Orders of events that a review or a fuzzer found worth a test of their own."""

from __future__ import annotations

import ctypes
import threading
import time

import numpy as np
import pytest

import hicache_nsa as hc
from hicache_nsa import testing

PAGE = 4


def make(device_pages: int, host_pages: int, **options) -> hc.HiCache:
    fmt = hc.formats.dsa(2, page_size=PAGE, kv_lora_rank=128, rope_head_dim=4)
    return hc.HiCache(fmt, device_pages=device_pages, host_pages=host_pages, **options)


def write(cache: hc.HiCache, pages, first: int = 1) -> None:
    """Page i of ``pages`` gets the byte first + i everywhere."""
    for arrays in cache.device_pool.buffers.values():
        for array in arrays:
            for i, page in enumerate(pages):
                array[page] = first + i


def read(cache: hc.HiCache, pages) -> list[int]:
    latent = cache.device_pool.buffers["latent"][0]
    return [int(latent[page][0]) for page in pages]


def test_pages_stay_in_order_when_a_load_below_a_failed_one_is_still_on_its_way() -> None:
    cache, gate = make(16, 8, acks="poll"), threading.Event()
    pages = cache.allocate(4)
    write(cache, pages)
    cache.insert(range(16), pages)
    assert cache.drain(30)
    cache.reset()
    with hc.CpuStream() as stream:
        above_match = cache.match_prefix(range(8))
        testing.fail_next(cache, "h2d")
        above = cache.load_back(above_match)
        rest = cache.allocate(14)
        stream.enqueue(gate.wait, 30)
        cache.free(rest[:2], stream=stream)  # the only free pages are busy: the next load waits
        below = cache.load_back(cache.match_prefix(range(16)))
        with pytest.raises(hc.TransferError):
            above.wait()
        cache.poll()
        cache.check()
        cache.free(rest[2:])
        again = cache.load_back(cache.match_prefix(range(16)))
        assert again.tokens == 16
        gate.set()
        assert again.wait(30) and read(cache, again.pages) == [1, 2, 3, 4]
        assert cache.drain(30)
        cache.check()
        for load in (above, below, again):
            load.release()
        cache.check()
        assert cache.stats().device.owned_pages == 0
    cache.close()


def test_hits_of_both_parts_survive_a_split() -> None:
    cache = make(8, 0)
    cache.insert(range(16), cache.allocate(4))
    for _ in range(2):
        cache.match_prefix(range(16))
    cache.match_prefix(range(8))
    upper, lower = sorted(cache.tree.nodes(), key=lambda node: node.start)
    assert (upper.hits, lower.hits) == (4, 3)
    cache.close()


def test_allocate_waits_for_the_saves_it_needs() -> None:
    fmt = hc.formats.dsa(8, page_size=64)
    with hc.HiCache(fmt, device_pages=4, host_pages=16) as cache:
        for i in range(30):
            cache.insert(range(i * 1000, i * 1000 + 256), cache.allocate(4))
        cache.check()


def test_allocate_does_not_wait_under_a_hold_nor_with_polled_acks() -> None:
    for acks in ("auto", "poll"):
        cache = make(4, 8, acks=acks)
        with testing.hold(cache, "d2h"):
            cache.insert(range(16), cache.allocate(4))
            start = time.monotonic()
            with pytest.raises(hc.OutOfPages, match="4 device pages wanted"):
                cache.allocate(4)
            assert time.monotonic() - start < 1
        cache.close()


def test_other_calls_go_on_while_a_flush_waits() -> None:
    cache = make(8, 8)
    cache.insert(range(8), cache.allocate(2))
    reports: list[hc.ResetReport] = []
    with testing.hold(cache, "d2h"):
        cache.insert(range(100, 108), cache.allocate(2))
        flush = threading.Thread(target=lambda: reports.append(cache.reset()))
        flush.start()
        time.sleep(0.05)
        assert cache.match_prefix(range(8)).tokens == 8  # would never return with the lock held
        assert not reports
    flush.join(30)
    assert reports[0].kept_host_tokens == 16
    cache.close()


def test_a_polled_limit_takes_in_no_copy_that_it_started_itself() -> None:
    cache = make(8, 8, acks="poll")
    cache.insert(range(8), cache.allocate(2))
    assert cache.drain(30)
    cache.reset()
    with testing.hold(cache, "h2d"):
        load = cache.load_back(cache.match_prefix(range(8)))
        cache.insert(range(12), [*load.pages, *cache.allocate(1)])
    assert load.wait(30)
    assert cache.poll(limit=2) == 1  # the insert behind it started a save just now
    assert cache.drain(30) and cache.stats().saved_tokens == 12
    cache.close()


def test_pages_of_a_load_belong_to_its_own_prefix() -> None:
    cache = make(8, 8)
    cache.insert(range(8), cache.allocate(2))
    assert cache.drain(30)
    cache.reset()
    with testing.hold(cache, "h2d"):
        load = cache.load_back(cache.match_prefix(range(8)))
        own = cache.allocate(1)
        for tokens, key in ((range(8), "z"), (range(100, 108), None)):
            with pytest.raises(ValueError, match="load of other tokens"):
                cache.insert(tokens, load.pages, extra_key=key)
        with pytest.raises(ValueError, match="load of other tokens"):
            cache.insert(range(100, 112), [*load.pages, *own])
        behind = cache.insert(range(12), [*load.pages, *own], lock=True)
        with pytest.raises(ValueError, match="load of other tokens"):
            cache.insert([*range(8), 9, 9, 9, 9], behind.pages)
        cache.check()
    assert cache.drain(30) and cache.match_prefix(range(12)).device_tokens == 12
    load.release()
    cache.unlock(behind.handle)
    cache.close()


@pytest.mark.parametrize(
    "tokens",
    [(ctypes.c_int64 * 8)(*range(8)), (ctypes.c_int32 * 8)(*range(8)), memoryview(np.arange(8))],
)
def test_tokens_in_foreign_buffers(tokens) -> None:
    cache = make(4, 4)
    cache.insert(range(8), cache.allocate(2))
    assert cache.match_prefix(tokens).tokens == 8
    cache.close()


@pytest.mark.parametrize(
    "tokens",
    [
        np.datetime64("2020"),
        np.timedelta64(1),
        np.array(["2020-01-01"], dtype="M8[D]"),
        (ctypes.c_double * 4)(),
        (ctypes.c_char * 4)(),
        np.array([1 + 2j]),
        np.zeros(2, dtype=[("a", np.int64)]),
    ],
)
def test_what_is_no_integer_is_refused_and_never_crashes(tokens) -> None:
    cache = make(4, 4)
    for call in (cache.match_prefix, lambda t: cache.insert(t, []), cache.free):
        with pytest.raises((TypeError, ValueError)):
            call(tokens)
    cache.close()


def test_a_failed_load_takes_along_what_stands_below_another_one():
    """A load fails; below it a load that is taken in later, and below that one a third, made after
    an insert had brought the first one's pages: it stands on the second alone.
    """
    tokens = list(range(12))
    cache = hc.HiCache(
        hc.formats.dsa(1, page_size=4, kv_lora_rank=128, rope_head_dim=4),
        device_pages=8, host_pages=8, acks="poll",
    )  # fmt: skip
    with cache:
        cache.insert(tokens, cache.allocate(3))
        assert cache.drain(30) and cache.evict_device(12) == 12
        testing.fail_next(cache, "h2d", 0)
        with testing.hold(cache, "h2d"):
            first = cache.load_back(cache.match_prefix(tokens), max_tokens=4)
            second = cache.load_back(cache.match_prefix(tokens[:8]))
            cache.insert(tokens[:4], cache.allocate(1))
            third = cache.load_back(cache.match_prefix(tokens))
            loads = [first, second, third]
            assert all(load is not None for load in loads)
        assert cache.ready(30).ended == 3
        assert cache.poll(1) == 1
        cache.check()
        assert all(node.load is None for node in cache.tree.nodes())
        assert cache.drain(30)
        match = cache.match_prefix(tokens)
        assert (match.device_tokens, match.host_tokens) == (4, 8)
        for load in loads:
            load.release()
        cache.check()
        assert cache.stats().device.locked_pages == 0
