"""F02 and its relatives: copies after what a stream had queued, streams after layers."""

from __future__ import annotations

import contextlib
import time

import numpy as np
import pytest
from gpu_pools import WAYS, Pools, content, format_of, torch

import hicache_nsa as hc
from hicache_nsa import testing

ways = pytest.mark.parametrize("way", WAYS)
FORMAT = format_of(656, rows=16, layers=4)
SLEEP = 2_000_000  # GPU cycles, about a millisecond


def patterns(pools: Pools, seed: int) -> list[list[object]]:
    """One page's bytes of every (buffer, layer), on the GPU."""
    return [
        [torch.from_numpy(content(seed, b.name, at, b.page_bytes)).cuda() for at in b.layers]
        for b in pools.format.buffers
    ]


def write(pools: Pools, pages, pattern) -> None:
    """Queue writes of the pattern into the pages on torch's current stream."""
    for b, data in zip(pools.format.buffers, pattern, strict=True):
        for tensor, row in zip(pools.buffers[b.name], data, strict=True):
            tensor[pages] = row


def read_layer(pools: Pools, layer: int) -> list[tuple[str, int, object]]:
    """(buffer, layer, copy of all its pages), queued on torch's current stream."""
    return [
        (b.name, layer, pools.buffers[b.name][b.layers.index(layer)].clone())
        for b in pools.format.buffers
        if layer in b.layers
    ]


@ways
def test_f02_a_save_runs_after_the_kernel_that_writes_the_pages(way) -> None:
    rng = np.random.default_rng(2)
    compute = torch.cuda.Stream()
    with Pools(FORMAT, 16, 16, io_backend=way) as pools:
        seeds = [patterns(pools, seed) for seed in range(4)]
        torch.cuda.synchronize()
        blocked = []
        for turn in range(200):
            pages = rng.choice(16, 4, replace=False)
            targets = rng.choice(16, 4, replace=False)
            index = torch.from_numpy(pages).cuda()
            torch.cuda.synchronize()
            with torch.cuda.stream(compute):
                torch.cuda._sleep(100 * SLEEP if turn == 0 else SLEEP)
                write(pools, index, seeds[turn % 4])
            written = torch.cuda.Event()
            written.record(compute)
            started = time.perf_counter()
            ticket = pools.engine.save(pages, targets, stream=compute)
            blocked.append(time.perf_counter() - started)
            while not ticket.done():
                time.sleep(0.0001)
            assert written.query(), "the ack came before the work it has to wait for"
            assert all(pools.host_holds(int(target), turn % 4) for target in targets)
        assert max(blocked) < 0.05 and np.median(blocked) < 0.0005


@ways
def test_a_load_into_just_freed_pages_wins_over_the_kernel_that_still_writes_them(way) -> None:
    compute = torch.cuda.Stream()
    rng = np.random.default_rng(3)
    with Pools(FORMAT, 8, 8, io_backend=way) as pools:
        stale = patterns(pools, 99)
        for page in range(8):
            pools.fill_host(page, page)
        for _ in range(100):
            pages = rng.choice(8, 3, replace=False)
            sources = rng.choice(8, 3, replace=False)
            index = torch.from_numpy(pages).cuda()
            torch.cuda.synchronize()
            with torch.cuda.stream(compute):
                torch.cuda._sleep(SLEEP)
                write(pools, index, stale)
                fence = pools.engine.record(compute)
                torch.cuda._sleep(50 * SLEEP)  # queued later: the load does not wait for this
            later = torch.cuda.Event()
            later.record(compute)
            after = [] if fence is None else [fence]
            ticket = pools.engine.submit("h2d", sources, pages, after=after)
            assert ticket.wait(30)
            assert not later.query(), "the load waited for work queued behind the fence"
            compute.synchronize()
            for page, source in zip(pages, sources, strict=True):
                assert pools.device_holds(int(page), int(source))


@ways
@pytest.mark.parametrize("held", [False, True])
def test_wait_layer_makes_the_stream_wait_and_not_the_host(way, held) -> None:
    reader = torch.cuda.Stream()
    with Pools(FORMAT, 8, 8, io_backend=way) as pools:
        for turn in range(30):
            for page in range(8):
                pools.fill_host(page, turn * 8 + page)
            pools.memory.fill_(0)
            torch.cuda.synchronize()
            copies = []
            with testing.hold(pools.engine, "h2d") if held else contextlib.nullcontext():
                ticket = pools.engine.load(range(8), range(8))
                started = time.perf_counter()
                with torch.cuda.stream(reader):
                    for layer in range(FORMAT.num_layers):
                        ticket.wait_layer(layer)  # torch's current stream
                        copies += read_layer(pools, layer)
                assert time.perf_counter() - started < 0.5
                if held:
                    time.sleep(0.003)
                    assert not reader.query() and not ticket.done()
            reader.synchronize()
            for name, layer, tensor in copies:
                for page in range(8):
                    row = tensor[page].cpu().numpy()
                    assert np.array_equal(row, content(turn * 8 + page, name, layer, row.size))
            assert ticket.wait(30)


@ways
@pytest.mark.parametrize(("count", "held"), [(64, False), (4, True)])
def test_streams_that_wait_early_do_not_stop_the_copy(way, count, held) -> None:
    """Streams share the GPU's queues, which must not close a circle: all priorities, also behind
    and before copies of their own.
    """
    streams = [torch.cuda.Stream(priority=-(i % 4)) for i in range(count)]
    pinned = torch.empty(1024, dtype=torch.uint8, pin_memory=True)
    sink = torch.empty((count, 1024), dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    with Pools(FORMAT, 8, 8, io_backend=way) as pools:
        for _ in range(20):
            with testing.hold(pools.engine, "h2d") if held else contextlib.nullcontext():
                ticket = pools.engine.load(range(8), range(8))
                for i, stream in enumerate(streams):
                    with torch.cuda.stream(stream):
                        sink[i].copy_(pinned, non_blocking=True)
                        ticket.wait_layer(i % FORMAT.num_layers, stream)
                        sink[i].copy_(pinned, non_blocking=True)
                        sink[i].add_(1)
                if held:
                    time.sleep(0.003)
                    assert not any(stream.query() for stream in streams)
            assert ticket.wait(10)
            for stream in streams:
                stream.synchronize()


@ways
def test_a_failed_load_releases_the_streams_that_wait(way) -> None:
    reader = torch.cuda.Stream()
    with Pools(FORMAT, 8, 8, io_backend=way) as pools:
        for page in range(8):
            pools.fill_host(page, page)
        for after in (0, 1, 2):
            testing.fail_next(pools.engine, "h2d", after)
            with testing.hold(pools.engine, "h2d"):
                ticket = pools.engine.load([0, 1, 2], [5, 6, 7])
                for layer in range(FORMAT.num_layers):
                    ticket.wait_layer(layer, reader)
            with pytest.raises(hc.TransferError, match=f"injected failure after {after} pages"):
                ticket.wait(10)
            assert not ticket.layer_done(0)
            reader.synchronize()
            ticket.wait_layer(1, reader)
            reader.synchronize()
            assert all(pools.device_holds(5 + i, i) for i in range(after))


def test_close_finishes_held_copies_and_streams_that_still_wait() -> None:
    reader = torch.cuda.Stream()
    pools = Pools(FORMAT, 8, 8)
    pools.fill_host(1, 1)
    pools.engine.hold("h2d")
    ticket = pools.engine.load([1], [4])
    with torch.cuda.stream(reader):
        torch.cuda._sleep(20 * SLEEP)  # it comes to the wait after the engine is gone
    ticket.wait_layer(2, reader)
    pools.engine.close()
    assert ticket.done() and ticket.error is None
    reader.synchronize()
    assert pools.device_holds(4, 1)


def test_saves_and_loads_of_the_same_pages_keep_their_order() -> None:
    with Pools(FORMAT, 8, 8) as pools:
        for turn in range(50):
            pools.fill_device(2, turn)
            torch.cuda.synchronize()
            pools.engine.save([2], [3])
            pools.engine.load([3], [6])
            assert pools.engine.save([6], [5]).wait(10)
            assert pools.host_holds(5, turn) and pools.device_holds(6, turn)
