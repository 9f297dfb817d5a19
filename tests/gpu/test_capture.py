"""F34: copies that are in flight while the model is being captured into a CUDA graph."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
import pytest
from gpu_pools import WAYS, Pools, gappy_format, torch
from mirror import Mirror

import hicache_nsa as hc
from hicache_nsa import testing

FORMAT = gappy_format()
SMALL_RING = 4 * 6_920
ways = pytest.mark.parametrize("way", WAYS)


@contextlib.contextmanager
def captured(x: object, stream: object, mode: str = "global") -> Iterator[object]:
    """A graph that adds 1 to x before and after what is done inside; waits for nothing."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        graph.capture_begin(capture_error_mode=mode)
        try:
            x.add_(1)
            yield graph
            x.add_(1)
        except BaseException:
            with contextlib.suppress(RuntimeError):  # leave no stream behind that is captured
                graph.capture_end()
            raise
        graph.capture_end()


def replays_right(graph: object, x: object) -> None:
    before = x.clone()
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(x, before + 6)


@ways
@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
def test_f34_copies_of_every_way_while_a_graph_is_captured(way, mode) -> None:
    """The engine's first copies: tables, flags and events are made meanwhile."""
    other, capture = torch.cuda.Stream(), torch.cuda.Stream()
    x = torch.zeros(1000, device="cuda")
    rng = np.random.default_rng(34)
    with Pools(FORMAT, 40, 40, io_backend=way, staging_bytes=SMALL_RING) as pools:
        mirror = Mirror(pools)
        with captured(x, capture, mode) as graph:
            for turn in range(6):
                host, device = rng.permutation(40)[:30], rng.permutation(40)[:30]
                fence = pools.engine.record(other)
                after = [] if fence is None else [fence]
                mirror.submit("d2h", host, device, after=after, layerwise=turn % 2 == 0)
                load = mirror.submit("h2d", host, rng.permutation(device), after=after)
                for layer in range(FORMAT.num_layers):
                    load.wait_layer(layer, other)
            assert load.wait(30) and load.done()
        replays_right(graph, x)
        mirror.settle()
        for taken in pools.engine.counters().values():
            assert taken[way] == 6


@ways
def test_f34_copies_begun_before_a_capture_end_after_it(way) -> None:
    reader, capture = torch.cuda.Stream(), torch.cuda.Stream()
    x = torch.zeros(1000, device="cuda")
    with Pools(FORMAT, 40, 40, io_backend=way, staging_bytes=SMALL_RING) as pools:
        mirror = Mirror(pools)
        with testing.hold(pools.engine, "h2d"), testing.hold(pools.engine, "d2h"):
            load = mirror.submit("h2d", range(20), range(20))
            save = mirror.submit("d2h", range(20, 40), range(20, 40))
            load.wait_layer(2, reader)  # by a flag: it is not queued yet
            with captured(x, capture) as graph:
                load.wait_layer(11, reader)
                pools.engine.release("h2d")  # what was held is queued now
                assert load.wait(30) and not save.done()
            pools.engine.hold("h2d")
            replays_right(graph, x)
            assert not save.done()
        reader.synchronize()
        mirror.settle()
        # An idle ring, and copies that have ended. The first graph stays: to let go of one spoils a
        # capture that goes on.
        with captured(x, capture) as again:
            load.wait_layer(1, reader)
            assert pools.engine.record(reader) is None
        replays_right(again, x)


@ways
def test_f34_a_stream_that_is_captured_is_no_place_for_copies(way) -> None:
    """Whatever is asked of it is refused; the capture goes on and nothing is copied."""
    capture = torch.cuda.Stream()
    x = torch.zeros(1000, device="cuda")
    with Pools(FORMAT, 8, 8, io_backend=way, staging_bytes=SMALL_RING) as pools:
        mirror = Mirror(pools)
        done = mirror.submit("h2d", [1], [2])
        mirror.settle()
        with testing.hold(pools.engine, "h2d"):
            held = mirror.submit("h2d", [0, 3], [4, 0])
            before = pools.engine.counters()
            with captured(x, capture) as graph:
                for stream in (None, capture, capture.cuda_stream):
                    refused(pools.engine.record, stream)
                    refused(pools.engine.save, [3], [5], stream=stream)
                    refused(pools.engine.load, [5], [3], stream=stream)
                    for ticket in (held, done):
                        for layer in (0, 4, 11):
                            refused(ticket.wait_layer, layer, stream)
                assert pools.engine.counters() == before
        replays_right(graph, x)
        mirror.settle()
        with torch.cuda.stream(capture):  # the same stream is as good as any other now
            held.wait_layer(10)
            assert pools.engine.load([5], [3]).wait(30)


def refused(call, *arguments, **options) -> None:
    with pytest.raises(hc.HiCacheError, match="captured"):
        call(*arguments, **options)


@ways
def test_f34_graphs_are_replayed_beside_copies(way) -> None:
    """The graph computes on pages that no copy touches, on the stream that waits for layers."""
    compute = torch.cuda.Stream()
    x = torch.zeros(1 << 20, device="cuda")
    rng = np.random.default_rng(3)
    with Pools(FORMAT, 40, 40, io_backend=way, staging_bytes=SMALL_RING) as pools:
        mirror = Mirror(pools)
        with captured(x, compute) as graph:
            pass
        torch.cuda.synchronize()
        for _ in range(20):
            load = mirror.submit("h2d", rng.permutation(40)[:20], rng.permutation(40)[:20])
            with torch.cuda.stream(compute):
                for layer in range(FORMAT.num_layers):
                    load.wait_layer(layer)
                    graph.replay()
            mirror.submit("d2h", rng.permutation(40)[:20], rng.permutation(40)[:20])
        mirror.settle()
        compute.synchronize()
        assert (x == 2 * 20 * FORMAT.num_layers).all()
