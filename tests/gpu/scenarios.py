"""What may go wrong with pinned memory and full queues: ``scenarios.py NAME`` in a process."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import mmap
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from apart import CANNOT
from gpu_pools import LAYOUTS, WAYS, Pools, content, format_of, gappy_format, torch
from mirror import Mirror

import hicache_nsa as hc
from hicache_nsa import _core, testing

FORMAT = format_of(656, rows=16, layers=4)  # 43,136 bytes a page
CURVE = _core.LinkCurve.typical()
PAGE = mmap.PAGESIZE
PAGES = 96
CHUNK = PAGES * FORMAT.page_bytes // 3
assert CHUNK % PAGE == 0


def host_pool(layout: str = "page_first") -> hc.HostPool:
    host = hc.HostPool(FORMAT, pages=PAGES, layout=layout)
    assert host.nbytes == 3 * CHUNK and host.memory.address % PAGE == 0
    return host


def pools_of(**options: Any) -> Pools:
    return Pools(FORMAT, link_curve=CURVE, **options)


def copies_are_right(pools: Pools, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    mirror = Mirror(pools, seed)
    host_pages, device_pages = pools.host.num_pages, pools.device.num_pages
    count = min(host_pages, device_pages)
    for _ in range(3):
        host, device = rng.permutation(host_pages)[:count], rng.permutation(device_pages)[:count]
        mirror.submit("d2h", host, device)
        mirror.submit("h2d", host, rng.permutation(device))
    mirror.settle()


def cuda_works() -> None:
    """No error is left behind for whoever calls CUDA next."""
    assert torch.ones(10, device="cuda").sum().item() == 10
    torch.cuda.synchronize()


def register(begin: int, nbytes: int) -> None:
    """Somebody else pins host memory."""
    torch.cuda.check_error(torch.cuda.cudart().cudaHostRegister(begin, nbytes, 0))


def unregister(begin: int) -> None:
    torch.cuda.check_error(torch.cuda.cudart().cudaHostUnregister(begin))


def nothing_is_registered(host: hc.HostPool, chunk: int) -> None:
    for begin in range(host.memory.address, host.memory.address + host.nbytes, chunk):
        register(begin, chunk)
        unregister(begin)


@contextlib.contextmanager
def no_access(begin: int) -> Iterator[None]:
    """A page of memory that nobody may touch, the driver neither."""
    libc = ctypes.CDLL(None, use_errno=True)

    def protect(how: int) -> None:
        status = libc.mprotect(ctypes.c_void_p(begin), ctypes.c_size_t(PAGE), ctypes.c_int(how))
        assert status == 0, f"mprotect: errno {ctypes.get_errno()}"

    protect(0)
    try:
        yield
    finally:
        protect(mmap.PROT_READ | mmap.PROT_WRITE)


def refused_chunks() -> None:
    """The first and the third of 3 chunks cannot be pinned."""
    for chunk in (0, 2):
        host = host_pool()
        begin = host.memory.address + chunk * CHUNK
        options: dict[str, Any] = {"host": host, "pin_chunk_bytes": CHUNK}
        with no_access(begin + PAGE):
            with pytest.raises(hc.HiCacheError) as caught:
                pools_of(pin_memory=True, **options)
            for part in (f"{CHUNK} bytes at {begin:#x}", f"chunk {chunk + 1} of 3", "(cudaError"):
                assert part in str(caught.value), (part, str(caught.value))
            cuda_works()
            with pytest.warns(RuntimeWarning, match=f"chunk {chunk + 1} of 3.*stays pageable"):
                pools = pools_of(**options)
            cuda_works()
        with pools:
            assert host.memory_kind.pinned_bytes == 2 * CHUNK
            assert host.memory_kind.pageable_bytes == CHUNK
            copies_are_right(pools)
        nothing_is_registered(host, CHUNK)
        for way in WAYS:  # what was refused once is pinned when it can be
            with without_warnings(), pools_of(io_backend=way, pin_memory=True, **options) as p:
                copies_are_right(p)
                assert p.engine.counters()["d2h"][way] == 3
        nothing_is_registered(host, CHUNK)


@contextlib.contextmanager
def without_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield


def mixed_pools() -> None:
    """One of 3 chunks is pageable: every way, layout and direction, pages of both kinds."""
    for layout in LAYOUTS:
        for refused in (0, 2):
            for way in ("auto", *WAYS):
                host = host_pool(layout)
                options: dict[str, Any] = {"host": host, "pin_chunk_bytes": CHUNK}
                with (
                    no_access(host.memory.address + refused * CHUNK + PAGE),
                    pytest.warns(RuntimeWarning, match=f"chunk {refused + 1} of 3"),
                ):
                    pools = pools_of(io_backend=way, **options)
                cuda_works()
                with pools:
                    copies_are_right(pools, refused)
                    mixed_copies(pools, refused, way)
                cuda_works()
                nothing_is_registered(host, CHUNK)


def mixed_copies(pools: Pools, refused: int, way: str) -> None:
    """Pages on one side of the border, on the other, and across it."""
    mirror = Mirror(pools, 1)
    third = PAGES // 3
    fast = np.arange(4) + (third if refused == 0 else 0)
    slow = np.arange(4) + refused * third
    across = np.arange(-2, 2) + (third if refused == 0 else 2 * third)
    device = np.arange(4)
    for host, is_fast in ((fast, True), (slow, False), (across, False)):
        for direction in ("d2h", "h2d"):
            before = pools.engine.counters()[direction]
            mirror.submit(direction, host, device).wait(30)
            after = pools.engine.counters()[direction]
            taken = {each for each in WAYS if after[each] > before[each]}
            if pools.host.layout != "layer_first" and way != "auto":
                assert taken == {way if is_fast else "direct"}, (taken, host, direction)
            device = np.roll(device + 1, 1) % pools.device.num_pages
    mirror.settle()


def refused_in_the_background() -> None:
    """Two chunks may be pinned, the third is refused while a cache serves."""
    for must in (False, True):
        with testing.hold_preparation(), without_warnings():
            cache = hc.HiCache(
                FORMAT, device="cuda", device_pages=32, host_pages=PAGES, link_curve=CURVE,
                pin_memory=must or "auto", prepare_first=CHUNK, prepare_step=CHUNK,
            )  # fmt: skip
        before = faults()
        with cache:
            assert cache.stats().host.ready_bytes == CHUNK
            assert testing.step_preparation(cache) == 2 * CHUNK
            assert cache.stats().host.total_pages == 2 * CHUNK // FORMAT.page_bytes
            ready = testing.step_preparation(cache)
            require_faults(before)
            assert ready == (2 if must else 3) * CHUNK
            if must:
                with pytest.raises(hc.HiCacheError, match=r"chunk 3 of 3.*cudaErrorMemory"):
                    cache.poll()
            else:
                with pytest.warns(RuntimeWarning, match=r"chunk 3 of 3.*cudaErrorMemory") as told:
                    cache.poll()
                assert len(told) == 1
            cuda_works()
            assert cache.host_pool.memory_kind.pinned_bytes == 2 * CHUNK
            assert cache.stats().host.total_pages == ready // FORMAT.page_bytes
            with without_warnings():
                there_and_back(cache)
        cuda_works()


def there_and_back(cache: hc.HiCache) -> None:
    """Prompts that fill the host tier, each loaded back and compared."""
    size = FORMAT.page_size
    for number in range(cache.stats().host.total_pages // 2):
        pages = cache.allocate(2)
        for index, page in enumerate(pages):
            for name, layer, tensor in device_tensors(cache):
                data = content(2 * number + index, name, layer, tensor[page].numel())
                tensor[page].copy_(torch.from_numpy(data))
        cache.insert([number] * 2 * size, pages)
        assert cache.drain(30)
    cache.evict_device(10**6)
    assert cache.stats().failed_saves == 0
    for number in range(cache.stats().host.total_pages // 2):
        match = cache.match_prefix([number] * 2 * size)
        assert match.host_tokens == 2 * size
        with cache.load_back(match) as load:
            assert load.wait(30)
            for index, page in enumerate(load.pages):
                for name, layer, tensor in device_tensors(cache):
                    data = content(2 * number + index, name, layer, tensor[page].numel())
                    assert np.array_equal(tensor[page].cpu().numpy().reshape(-1), data)
        cache.check()


def device_tensors(cache: hc.HiCache) -> Iterator[tuple[str, int, Any]]:
    for buffer in FORMAT.buffers:
        for layer, tensor in zip(
            buffer.layers, cache.device_pool.buffers[buffer.name], strict=True
        ):
            yield buffer.name, layer, tensor


def pinned_by_somebody() -> None:
    """The whole pool is registered already: it is used, and stays registered."""
    host = host_pool()
    register(host.memory.address, host.nbytes)
    for chunk in (0, CHUNK):
        for way in WAYS:
            options = {"io_backend": way, "pin_memory": True, "pin_chunk_bytes": chunk}
            with without_warnings(), pools_of(host=host, **options) as pools:
                copies_are_right(pools)
                assert pools.engine.counters()["h2d"][way] == 3
            cuda_works()
    unregister(host.memory.address)
    nothing_is_registered(host, CHUNK)


def partly_pinned(first: int, count: int) -> None:
    """Some pages of memory inside one chunk are registered already: refused before a byte moves."""
    for way in ("direct", "staged", "kernel"):
        host = host_pool()
        begin = host.memory.address + first * PAGE
        register(begin, count * PAGE)
        for chunk in (0, CHUNK):
            options = {"host": host, "io_backend": way, "pin_chunk_bytes": chunk}
            with pytest.raises(hc.HiCacheError, match="is registered with CUDA already"):
                pools_of(**options)
            cuda_works()
        unregister(begin)
        nothing_is_registered(host, CHUNK)
        with pools_of(host=host, io_backend=way) as pools:
            copies_are_right(pools)


def partly_pinned_in_front() -> None:
    partly_pinned(0, 7)


def partly_pinned_inside() -> None:
    partly_pinned(100, 11)


def first_engine_closes_first() -> None:
    """Two engines of one pool: the one that pinned it goes, the other one copies on."""
    for chunk in (0, CHUNK):
        for way in ("direct", "staged", "kernel"):
            host = host_pool()
            options = {"host": host, "io_backend": way, "pin_chunk_bytes": chunk}
            first = pools_of(**options)
            with pools_of(**options) as second:
                copies_are_right(first, 1)
                first.engine.close()
                cuda_works()
                copies_are_right(second, 2)
            cuda_works()
            nothing_is_registered(host, CHUNK)


def full_queues() -> None:
    """Thousands of tiles behind a stream that waits for copies of the other direction."""
    fmt = gappy_format()
    pages = 320
    reader = torch.cuda.Stream()
    options = {"io_backend": "staged", "staging_bytes": 1}
    with Pools(fmt, 2 * pages, 2 * pages, **options) as pools:
        mirror = Mirror(pools)
        torch.ones(10, device="cuda").add_(1)  # loading a kernel waits for all that is queued
        front, back = range(pages), range(pages, 2 * pages)
        for turn in range(3):
            with testing.hold(pools.engine, "h2d"):
                load = mirror.submit("h2d", front, front, layerwise=turn > 0)
                for layer in range(fmt.num_layers):
                    load.wait_layer(layer, reader)
                fence = pools.engine.record(reader)
                assert fence is not None
                mirror.submit("d2h", back, back, after=[fence])
                time.sleep(0.05)  # the saves are queued until no more fits
                torch.ones(10, device="cuda").add_(1)  # others may go on meanwhile
            mirror.settle()
        reader.synchronize()


def faults() -> int:
    """How often the driver was spoken for."""
    return ctypes.c_int.in_dll(ctypes.CDLL(None), "hicache_test_faults").value


def require_faults(before: int) -> None:
    if faults() == before:
        print("the CUDA runtime does not ask the driver where the fault is set")
        sys.exit(CANNOT)


def no_host_pointers() -> None:
    """The GPU does not see registered memory at the host's addresses."""
    for way in WAYS:
        before = faults()
        with without_warnings(), pools_of(io_backend=way, pin_memory=True) as pools:
            require_faults(before)
            copies_are_right(pools)
            assert pools.engine.counters()["d2h"][way] == 3  # by the alias of the only chunk
        cuda_works()
    for way in ("auto", *WAYS):  # several chunks have no common alias
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            pools = pools_of(host=host_pool(), io_backend=way, pin_chunk_bytes=CHUNK)
        with pools:
            copies_are_right(pools)
            assert pools.engine.counters()["h2d"]["direct"] == 3
        cuda_works()
        texts = [str(each.message) for each in told if each.category is RuntimeWarning]
        assert len(texts) == (0 if way == "direct" else 1), (way, texts)


def pin_limit() -> None:
    """64 MiB may be pinned and 1 GiB is asked for: the rest is pageable, which is said once."""
    limit = 64 << 20
    registered = ctypes.CDLL(None).hicache_test_registered
    registered.restype = ctypes.c_size_t
    cases = (
        (2 * limit, "chunk 1 of 8", 0),
        (0, "chunk 2 of 16", limit),
        (limit // 2, "chunk 3 of 32", limit),
    )
    for chunk, where, pinned in cases:
        host = hc.HostPool(FORMAT, size=1 << 30, prefault=False)
        before = faults()
        options = {"host": host, "pin_chunk_bytes": chunk}
        with pytest.warns(RuntimeWarning, match=f"{where}.*cudaErrorMemoryAllocation") as told:
            pools = pools_of(**options)
        require_faults(before)
        assert [each.category for each in told].count(RuntimeWarning) == 1
        assert registered() == host.memory_kind.pinned_bytes == pinned
        cuda_works()
        with pools:
            last = host.num_pages - 1
            for page in (0, last):
                pools.fill_host(page, page)
            assert pools.engine.load([0, last], [3, 2]).wait(30)
            assert pools.device_holds(3, 0) and pools.device_holds(2, last)
            assert pools.engine.save([3], [last]).wait(30) and pools.host_holds(last, 0)
        assert registered() == 0
        with pytest.raises(hc.HiCacheError, match=f"{where}.*cudaErrorMemoryAllocation"):
            pools_of(pin_memory=True, **options)
        cuda_works()
        with without_warnings(), pools_of(host=host_pool(), pin_memory=True) as small:
            copies_are_right(small)
            assert registered() == small.host.nbytes
        assert registered() == 0


SCENARIOS: dict[str, Callable[[], None]] = {
    run.__name__: run
    for run in (
        refused_chunks,
        mixed_pools,
        refused_in_the_background,
        pinned_by_somebody,
        partly_pinned_in_front,
        partly_pinned_inside,
        first_engine_closes_first,
        full_queues,
        no_host_pointers,
        pin_limit,
    )
}

if __name__ == "__main__":
    faulthandler.dump_traceback_later(75, exit=True)
    SCENARIOS[sys.argv[1]]()
