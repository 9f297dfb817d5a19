"""F01, F02, F06, F09, F33, F52: bytes between a device pool and a host pool."""

from __future__ import annotations

import statistics
import threading
import time
from contextlib import ExitStack

import numpy as np
import pytest
from case_bytes import LAYOUTS, WIPED, device_holds, device_wiped, fill, host_holds, pattern, wipe

import hicache_nsa as hc

layouts = pytest.mark.parametrize("layout", LAYOUTS)


def engine_of(fmt, device_pages, host_pages, layout, **options):
    device = hc.DevicePool(fmt, pages=device_pages)
    host = hc.HostPool(fmt, pages=host_pages, layout=layout)
    wipe(device)
    host.view()[:] = WIPED
    return hc.TransferEngine(device, host, **options)


@layouts
@pytest.mark.parametrize("backend", ["auto", "kernel", "direct"])
def test_f01_latent_and_indexer_come_back_bit_for_bit(layout, backend):
    fmt = hc.formats.dsa(3, kv_dtype="fp8", page_size=64)
    sizes = {b.name: b.page_bytes for b in fmt.buffers}
    assert sizes == {"latent": 64 * 576, "index_k": 8448}
    engine = engine_of(fmt, 4, 4, layout, io_backend=backend)
    device, host = engine.device_pool, engine.host_pool
    assert host.nbytes == 442368 + 101376 == 543744
    for page in range(4):
        fill(device, page, page)
    assert engine.save([3, 1], [2, 0]).wait()
    assert host_holds(host, 2, 3) and host_holds(host, 0, 1)
    untouched = [
        host.page_view(b.name, x, p) for b in fmt.buffers for x in b.layers for p in (1, 3)
    ]
    assert all((view == WIPED).all() for view in untouched)
    wipe(device)
    assert engine.load([2, 0], [0, 2]).wait()
    assert device_holds(device, 0, 3) and device_holds(device, 2, 1)
    assert device_wiped(device, 1) and device_wiped(device, 3)
    engine.check()
    engine.close()


@layouts
def test_f01_a_layer_without_an_indexer_holds_no_bytes_for_it(layout):
    fmt = hc.formats.dsa(3, kv_dtype="fp8", page_size=64, index_layers=(1,))
    engine = engine_of(fmt, 4, 4, layout)
    assert engine.host_pool.nbytes == 4 * (3 * 64 * 576 + 8448)
    for page in range(4):
        fill(engine.device_pool, page, page)
    assert engine.save([3, 1], [2, 0]).wait()
    wipe(engine.device_pool)
    assert engine.load([2, 0], [0, 2]).wait()
    assert device_holds(engine.device_pool, 0, 3) and device_holds(engine.device_pool, 2, 1)
    engine.close()


def test_f01_there_is_no_host_pool_for_the_latent_part_only():
    dsa, mla = hc.formats.dsa(3, kv_dtype="fp8"), hc.formats.mla(3, kv_dtype="fp8")
    assert dsa.buffers[0] == mla.buffers[0]
    with pytest.raises(ValueError, match=r"index_k"):
        hc.TransferEngine(hc.DevicePool(dsa, pages=4), hc.HostPool(mla, pages=4))


@pytest.mark.parametrize("rounds", [(0.1, 3), (0.002, 197)], ids=["100ms", "2ms"])
def test_f02_a_save_waits_for_the_stream_that_writes_the_pages(rounds):
    """The compute stream is a CpuStream: it sleeps, then writes pattern B."""
    seconds, count = rounds
    fmt = hc.formats.dsa(2, page_size=4)
    rng = np.random.default_rng(2)
    engine = engine_of(fmt, 16, 16, "page_first")
    device, host = engine.device_pool, engine.host_pool
    blocked = []
    with hc.CpuStream() as stream:
        for turn in range(count):
            pages = rng.choice(16, 4, replace=False)
            targets = rng.choice(16, 4, replace=False)
            for page in pages:
                fill(device, page, -1)
            written = threading.Event()

            def write(pages=pages, turn=turn, written=written):
                for page in pages:
                    fill(device, page, turn * 16 + int(page))
                written.set()

            stream.enqueue(time.sleep, seconds)
            stream.enqueue(write)
            before = time.perf_counter()
            ticket = engine.save(pages, targets, stream=stream)
            blocked.append(time.perf_counter() - before)
            while not ticket.done():
                time.sleep(0.0002)
            assert written.is_set(), "the ack came before the work it has to wait for"
            assert ticket.error is None
            for page, target in zip(pages, targets, strict=True):
                assert host_holds(host, target, turn * 16 + int(page))
    assert statistics.median(blocked) < seconds / 4
    engine.close()


def test_f02_write_through_is_ordered_after_the_stream_of_the_insert():
    fmt = hc.formats.dsa(2, page_size=4)
    start = threading.Event()
    with ExitStack() as stack:
        stream = stack.enter_context(hc.CpuStream())
        stack.callback(start.set)  # whatever happens, the stream ends
        cache = stack.enter_context(hc.HiCache(fmt, device_pages=8, host_pages=8))
        pages = cache.allocate(2)
        for page in pages:
            fill(cache.device_pool, page, -1)
        stream.enqueue(start.wait)
        for i, page in enumerate(pages):
            stream.enqueue(fill, cache.device_pool, page, i)
        cache.insert(range(8), pages, stream=stream)
        assert not cache.drain(0.05), "the ack came before the compute stream's event"
        assert cache.match_prefix(range(8)).device_tokens == 8  # usable behind the stream
        start.set()
        assert cache.drain(30)
        cache.evict_device(8)
        match = cache.match_prefix(range(8))
        assert match.host_tokens == 8
        assert all(host_holds(cache.host_pool, p, i) for i, p in enumerate(match.host_pages))
        cache.check()


F06_PAGES = (0, 937, 1678)  # tokens 0, 59968 and 107392 at 64 a page


F06_KINDS = [(layout, "auto") for layout in LAYOUTS]
F06_KINDS += [("page_first", "kernel"), ("page_first", "direct")]


@pytest.mark.parametrize("layout, backend", F06_KINDS)
def test_f06_offsets_beyond_32_bits(layout, backend):
    latent = hc.BufferFormat("latent", 64 * 656, tuple(range(61)))
    fmt = hc.PoolFormat("f06", 64, 61, (latent,))
    # Six of its pages are touched: the limit lets it pass on a small machine, too.
    host = hc.HostPool(fmt, pages=1719, layout=layout, prefault=False, memory_limit="8GiB")
    assert host.nbytes == 110016 * 40016 == 4_402_400_256
    if layout == "layer_first":
        assert host.offset("latent", 60, 0) == 4330229760
    else:
        assert [host.offset("latent", 0, p) for p in F06_PAGES] == [0, 2399679488, 4297398272]
    device = hc.DevicePool(fmt, pages=5)
    wipe(device)
    for page, content in zip((0, 2, 4), F06_PAGES, strict=True):
        fill(device, page, content)
    engine = hc.TransferEngine(device, host, io_backend=backend)
    assert engine.save([0, 2, 4], F06_PAGES).wait()
    assert all(host_holds(host, page, page) for page in F06_PAGES)
    guards = [(x, p) for x in (0, 60) for p in (1, 936, 938, 1677, 1679, 1718)]
    assert not any(host.page_view("latent", layer, page).any() for layer, page in guards)
    wipe(device)
    assert engine.load(F06_PAGES, [4, 0, 2]).wait()
    for page, content in zip((4, 0, 2), F06_PAGES, strict=True):
        assert device_holds(device, page, content)
    assert device_wiped(device, 1) and device_wiped(device, 3)
    assert host_holds(host, 0, 0)
    for bad in (1719, 2**31, 2**31 + 5, 2**32, 2**32 + 937, 2**63 - 1):
        with pytest.raises(ValueError, match=str(bad)):
            engine.load([bad], [0])
        with pytest.raises(ValueError, match=str(bad)):
            engine.save([bad], [0])
    engine.close()


@layouts
def test_f09_a_companion_travels_with_the_pages(layout):
    draft = hc.BufferFormat("draft", 4 * 200, (0, 1))
    mtp = hc.BufferFormat("mtp", 4 * 72, (3,))
    fmt = hc.formats.dsa(3, page_size=4).extended(draft, mtp)
    assert fmt.num_layers == 4
    assert fmt.page_bytes == 3 * (4 * 656 + 4 * 132) + 2 * 800 + 288
    engine = engine_of(fmt, 6, 6, layout)
    for page in range(6):
        fill(engine.device_pool, page, page)
    ticket = engine.save([5, 0, 3], [1, 4, 2])
    assert ticket.wait() and ticket.pages == 3 and ticket.nbytes == 3 * fmt.page_bytes
    wipe(engine.device_pool)
    ticket = engine.load([1, 4, 2], [2, 1, 0])
    ticket.wait_layer(3)
    for page, content in ((2, 5), (1, 0), (0, 3)):
        assert device_holds(engine.device_pool, page, content)
    assert all(device_wiped(engine.device_pool, page) for page in (3, 4, 5))
    assert engine.counters()["d2h"]["copies"] == 1  # one ack for everything
    engine.close()


BAD_PAIRS = {
    "lengths differ": ([0, 1], [0]),
    "negative host page": ([-1], [0]),
    "negative device page": ([0], [-1]),
    "host page behind the pool": ([4], [0]),
    "device page behind the pool": ([0], [4]),
    "beyond 32 bits": ([2**32], [0]),
}


@pytest.mark.parametrize("host_pages, device_pages", BAD_PAIRS.values(), ids=BAD_PAIRS)
def test_f33_bad_pages_are_refused_before_a_byte_moves(host_pages, device_pages):
    engine = engine_of(hc.formats.dsa(2, page_size=4), 4, 4, "page_first")
    fill(engine.device_pool, 0, 7)
    host_before = engine.host_pool.view().copy()
    for call in (engine.save, engine.load):
        given = (device_pages, host_pages) if call == engine.save else (host_pages, device_pages)
        with pytest.raises(ValueError):
            call(*given)
    assert np.array_equal(engine.host_pool.view(), host_before)
    assert device_holds(engine.device_pool, 0, 7)
    assert engine.counters()["d2h"]["submitted"] == engine.counters()["h2d"]["submitted"] == 0
    engine.close()


def test_f33_targets_must_differ_and_sources_may_repeat():
    engine = engine_of(hc.formats.dsa(2, page_size=4), 4, 4, "page_first")
    fill(engine.device_pool, 1, 5)
    with pytest.raises(ValueError, match="2"):
        engine.save([0, 1], [2, 2])
    assert (engine.host_pool.view() == WIPED).all()
    assert engine.save([1, 1], [0, 3]).wait()
    assert host_holds(engine.host_pool, 0, 5) and host_holds(engine.host_pool, 3, 5)
    with pytest.raises(ValueError, match="3"):
        engine.load([0, 1], [3, 3])
    assert device_wiped(engine.device_pool, 3)
    assert engine.load([0, 0], [2, 3]).wait()
    assert device_holds(engine.device_pool, 2, 5) and device_holds(engine.device_pool, 3, 5)
    engine.close()


def test_f33_nothing_to_copy_completes_at_once_and_a_closed_engine_refuses():
    engine = engine_of(hc.formats.dsa(2, page_size=4), 4, 4, "page_first")
    engine.hold("d2h")  # even while nothing else could run
    ticket = engine.save([], [])
    assert ticket.done() and ticket.error is None and ticket.pages == 0
    assert ticket.layer_done(1) and ticket.wait(0)
    engine.close()
    for call in (lambda: engine.save([0], [0]), lambda: engine.load([], [])):
        with pytest.raises(hc.HiCacheError, match="closed"):
            call()


def test_f52_contiguous_tokens_are_one_run_and_submit_is_quick():
    """P=1, layer_first, 4096 neighbouring tokens, 61 layers."""
    fmt = hc.formats.dsa(61, page_size=1)
    device = hc.DevicePool(fmt, pages=4096)
    engine = hc.TransferEngine(device, hc.HostPool(fmt, pages=4096, layout="layer_first"))
    pages = np.arange(4096)
    engine.save(pages, pages).wait()
    times = []
    for _ in range(3):
        before = time.perf_counter()
        ticket = engine.save(pages, pages)
        times.append(time.perf_counter() - before)
        assert not ticket.done()
        ticket.wait()
    assert statistics.median(times) < 0.02
    assert engine.counters()["d2h"]["runs"] == 4  # one a submit, shared by its 61 layers
    engine.close()


def test_patterns_tell_contents_layers_buffers_and_offsets_apart():
    base = pattern(1, 0, "latent", 4096)
    others = [pattern(2, 0, "latent", 4096), pattern(1, 1, "latent", 4096)]
    others += [pattern(1, 0, "index_k", 4096), np.roll(base, 16), np.roll(base, 2048)]
    assert all((base != other).mean() > 0.95 for other in others)
