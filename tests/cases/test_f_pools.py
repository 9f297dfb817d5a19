"""F38, F39, F42, F51, F52: pages are handed out once, sizes mean what they say, nobody freezes."""

from __future__ import annotations

import statistics
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from case_cache import FORMAT, LONG, CaseCache
from heartbeat import heartbeat

import hicache_nsa as hc
from hicache_nsa.testing import hold


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096


def test_f38_allocated_pages_are_an_array_of_their_own():
    with CaseCache(64 * 4, 0) as c:
        mine = c.allocate(4)
        kept = mine.copy()
        assert mine.dtype == np.int64 and mine.shape == (4,) and mine.nbytes == 32
        base = mine
        while isinstance(base.base, np.ndarray):  # whatever it is a view of is no larger
            base = base.base
            assert base.nbytes <= 32
        rng = np.random.default_rng(38)
        held = []
        for _ in range(500):
            held.append(c.cache.allocate(int(rng.integers(0, 8))))
            if sum(map(len, held)) > 40:
                for pages in held:
                    c.cache.free(pages)
                held.clear()
            assert np.array_equal(mine, kept)
        c.check()


def test_f38_results_of_match_and_insert_are_arrays_of_their_own():
    with CaseCache(64, 64) as c:
        result = c.put(range(16))
        assert c.drain(LONG)
        match = c.match_prefix(range(16))
        kept = match.device_pages.copy(), result.pages.copy()
        c.evict_device(8)
        again = c.match_prefix(range(16))
        host = again.host_pages.copy()
        c.reset()
        c.clear()
        c.put(range(100, 164))
        assert np.array_equal(match.device_pages, kept[0])
        assert np.array_equal(result.pages, kept[1])
        assert np.array_equal(again.host_pages, host)


def test_f38_memory_does_not_grow():
    pool = hc.DevicePool(hc.formats.dsa(1, page_size=1), pages=4096)
    rng = np.random.default_rng(38)

    def work(rounds: int) -> list:
        held, results = [], []
        for turn in range(rounds):
            pages = pool.allocate(int(rng.integers(1, 64)))
            held.append(pages)
            if turn % 10 == 0:
                results.append(pages)
            if pool.free_pages < 128:
                for each in held:
                    pool.free(each)
                held.clear()
        for each in held:
            pool.free(each)
        return results

    work(500)
    before = resident_bytes()
    results = work(10_000)
    assert resident_bytes() - before < 5e6 and len(results) == 1000
    pool.check()


WRONG_FREES = {  # the caller has 9 to 12, the tree 13 and 14; 8 was the caller's
    "twice": ([8], "free"),
    "one of them twice": ([10, 8], "free"),
    "repeated in the list": ([10, 11, 10], "twice"),
    "behind the pool": ([16], "16"),
    "negative": ([-1], "-1"),
    "huge": ([2**40], str(2**40)),
    "never allocated": ([1], "free"),
    "reserved": ([15], "reserved"),
    "cached": ([13], "cached"),
}


@pytest.mark.parametrize("pages, text", WRONG_FREES.values(), ids=WRONG_FREES)
def test_f39_a_wrong_free_changes_nothing(pages, text):
    with hc.HiCache(FORMAT, device_pages=16, host_pages=4, device_reserved=[15]) as cache:
        mine = cache.allocate(7)
        assert mine.tolist() == list(range(8, 15))
        cache.insert(range(8), [13, 14])
        cache.free([8])
        cache.drain(LONG)
        before = cache.stats()
        with pytest.raises(ValueError, match=text):
            cache.free(pages)
        assert cache.stats() == before
        cache.check()
        assert cache.allocate(1).tolist() == [8]  # the free list is as it was
        cache.free(mine[:5])
        assert cache.stats().device.owned_pages == 0


@pytest.mark.parametrize("pages", [[0.5], [True], np.array([0.0]), "0", [[0]], {0}, None])
def test_f39_half_a_page_is_no_page(pages):
    with hc.HiCache(FORMAT, device_pages=4, host_pages=0) as cache:
        cache.allocate(2)
        with pytest.raises((TypeError, ValueError)):
            cache.free(pages)
        assert cache.stats().device.owned_pages == 2


def test_f39_pools_refuse_the_same():
    pool = hc.HostPool(FORMAT, pages=8)
    pages = pool.allocate(3)
    for wrong in ([0], [*pages, pages[0]], [8], [-1]):
        with pytest.raises(ValueError):
            pool.free(wrong)
        assert pool.free_pages == 5
    pool.free(pages[::-1])
    with pytest.raises(ValueError):
        pool.free(pages)
    assert pool.free_pages == 8
    pool.check()


def test_f42_the_size_is_the_whole_of_it():
    """1 GB for L=61, latent 656 and indexer 132 bytes a token, P=64: 325 pages."""
    fmt = hc.formats.dsa(61)
    assert fmt.token_bytes == 61 * (656 + 132) == 48068
    for size in (1_000_000_000, "1GB", "1000 MB"):
        pool = hc.HostPool(fmt, size=size, prefault=False)
        assert pool.num_pages == pool.free_pages == 325 and 325 * 64 == 20800
        assert pool.nbytes == 999_814_400
        assert pool.nbytes + fmt.page_bytes > 1_000_000_000
    assert hc.HostPool(fmt, size="1GiB", prefault=False).num_pages == 349
    assert hc.HostPool(fmt, size=fmt.page_bytes * 7, prefault=False).num_pages == 7
    assert hc.HostPool(fmt, size=fmt.page_bytes * 7 - 1, prefault=False).num_pages == 6


def test_f42_the_process_uses_what_the_size_says():
    fmt = hc.formats.dsa(2, page_size=64)
    before = resident_bytes()
    with hc.HiCache(fmt, device_pages=1, host_size="200MB") as cache:
        grown = resident_bytes() - before
        assert cache.host_pool.nbytes <= 200_000_000
        assert 0.95 * 200e6 < grown < 200e6 + 8e6
    assert resident_bytes() - before < 8e6  # close() gives it back, while ``cache`` is still here


def test_f42_host_pages_are_exact_and_no_tier_is_allowed():
    with CaseCache(1024, 2048) as c:
        assert c.stats().host.total_pages * 4 == 2048
        assert c.host_pool.nbytes == 512 * FORMAT.page_bytes
    with hc.HiCache(FORMAT, device_pages=8, host_pages=0) as cache:
        cache.insert(range(8), cache.allocate(2))
        stats = cache.stats()
        assert stats.refused_save_tokens == 0 and stats.host.total_pages == 0
        cache.check()
    with hc.HiCache(FORMAT, device_pages=0, host_pages=8) as cache, pytest.raises(hc.OutOfPages):
        cache.allocate(1)


def test_f42_a_device_tensor_of_no_whole_number_of_pages_is_refused():
    fmt = hc.formats.mla(1, kv_dtype="fp8", page_size=64)
    rows = [np.zeros((1000, 576), np.uint8)]
    with pytest.raises(ValueError, match=r"1000 token rows.*64"):
        hc.HiCache(fmt, device_buffers={"latent": rows}, host_pages=1)


@pytest.mark.parametrize(
    "size", ["", "GiB", "-1GB", "5 furlongs", "1e9", "0x10", -5, 10, "1KiB", 0]
)
def test_f42_sizes_that_say_nothing_or_hold_nothing_are_refused(size):
    with pytest.raises(ValueError, match="host_size"):
        hc.HiCache(FORMAT, device_pages=4, host_size=size)


@pytest.mark.parametrize("host", [{"host_size": "100TB"}, {"host_pages": 2**31}])
def test_f42_more_than_the_machine_has_is_refused_at_once(host):
    fmt = hc.formats.dsa(61)
    with pytest.raises(hc.HiCacheError, match=r"host pool of \d+ pages .*ask for fewer"):
        hc.HiCache(fmt, device_pages=0, **host)


def test_f51_making_the_pool_does_not_stop_other_threads():
    with heartbeat(0.25) as gaps, hc.HiCache(FORMAT, device_pages=4, host_size="512MiB"):
        pass
    assert len(gaps) > 2


def test_f51_memory_that_gets_ready_in_the_background_does_not_stop_other_threads():
    for wait in (True, False):  # to the end, or closed in the middle
        with heartbeat(0.25) as gaps:
            cache = hc.HiCache(FORMAT, device_pages=4, host_size="256MiB", prepare_first=0)
            while wait and cache.stats().host.ready_bytes < cache.host_pool.nbytes:
                cache.free(cache.allocate(1))
                time.sleep(0.001)
            cache.close()
        assert wait is False or len(gaps) > 1


def test_f51_waiting_does_not_stop_other_threads():
    a = list(range(8))
    with CaseCache(16, 16) as c:
        c.put_on_host(a)
        with hold(c.cache, "h2d"), heartbeat(0.25) as gaps:
            load = c.start_load(a)
            assert not load.wait(0.3)
            assert not c.drain(0.3)
            assert len(gaps) > 20
        assert load.wait(LONG)
        c.release(load)


@pytest.mark.parametrize("end", ["reset", "clear", "close"])
def test_f51_flush_and_close_wait_without_stopping_other_threads(end):
    a = list(range(8))
    c = CaseCache(16, 16)
    gate = hold(c.cache, "d2h")
    gate.__enter__()
    c.put(a)
    if end == "close":  # opens the gates itself; the stream is what it waits for
        gate.__exit__(None, None, None)
        with hc.CpuStream() as stream, heartbeat(0.25):
            stream.enqueue(time.sleep, 0.3)
            pages = c.compute(range(50, 54))
            c.insert(range(50, 54), pages, stream=stream)
            c.close()
    else:
        with heartbeat(0.25) as gaps:
            timer = threading.Timer(0.3, gate.__exit__, (None, None, None))
            timer.start()
            getattr(c, end)()
            timer.join()
        assert len(gaps) > 10
        assert c.hit(a) == ((0, 8) if end == "reset" else (0, 0))
    c.close()


def test_f52_frees_are_quick_and_no_page_is_lost():
    """6.6 M slots, 10000 frees of 64: half a pool in use, freed in random order."""
    pool = hc.HostPool(hc.formats.mha(1, 1, 1, dtype="fp8", page_size=1), pages=6_600_000)
    runs = [pool.allocate(64) for _ in range(20_000)]
    order = np.random.default_rng(52).permutation(20_000)
    times = []
    for i in order[:10_000]:
        before = time.perf_counter()
        pool.free(runs[i])
        times.append(time.perf_counter() - before)
    assert statistics.median(times) < 50e-6
    assert pool.free_pages == 6_600_000 - 640_000
    every = pool.allocate(pool.free_pages)  # any size that is available, however scattered
    kept = np.concatenate([runs[i] for i in order[10_000:]])
    times_given = np.bincount(np.concatenate([every, kept]), minlength=6_600_000)
    assert pool.free_pages == 0 and (times_given == 1).all()
    with pytest.raises(hc.OutOfPages, match="6600000"):
        pool.allocate(1)
