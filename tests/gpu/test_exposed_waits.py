"""How long streams really waited for layers, by events on the device (``counters()``)."""

from __future__ import annotations

import ctypes
import itertools
import time
from typing import Any

import pytest
from gpu_pools import WAYS, Pools, format_of, torch

import hicache_nsa as hc
from hicache_nsa.testing import fail_next, hold

FORMAT = format_of(576)
LAYERS = FORMAT.num_layers
MANY = hc.formats.dsa(61, kv_dtype="fp8", page_size=4)
HELD_NS = 50_000_000
SPARE_SECONDS = 0.01  # for the device to come to a wait that is queued on an idle stream
LONG = 30.0

ways = pytest.mark.parametrize("way", WAYS)


def waits_of(engine: hc.TransferEngine, direction: str = "h2d") -> tuple[int, int]:
    counters = engine.counters()[direction]
    return counters["exposed_waits"], counters["exposed_wait_ns"]


def stay_held() -> None:
    time.sleep(HELD_NS * 1e-9 + SPARE_SECONDS)


class Real:
    """A stream's time from here to ``nanoseconds()``, by events of the test."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._begin, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self._begin.record(stream)

    def nanoseconds(self) -> float:
        self._end.record(self._stream)
        self._end.synchronize()
        return self._begin.elapsed_time(self._end) * 1e6


@ways
def test_a_stream_that_waits_for_a_held_load(way: str) -> None:
    stream = torch.cuda.Stream()
    with Pools(FORMAT, io_backend=way) as pools:
        pools.fill_host(3, 1)
        pools.engine.hold("h2d")
        load = pools.engine.load([3], [5])
        real = Real(stream)
        for layer in range(LAYERS):
            load.wait_layer(layer, stream)
        stay_held()
        assert waits_of(pools.engine) == (0, 0)  # not over yet
        pools.engine.release("h2d")
        assert load.wait(LONG)
        count, waited = waits_of(pools.engine)
        assert 1 <= count <= LAYERS
        assert HELD_NS <= waited <= real.nanoseconds() + 2_000  # events keep half a microsecond
        assert pools.device_holds(5, 1)
        assert waits_of(pools.engine, "d2h") == (0, 0)


@ways
def test_a_stream_that_comes_late_did_not_wait(way: str) -> None:
    stream = torch.cuda.Stream()
    with Pools(FORMAT, io_backend=way) as pools:
        pools.fill_host(3, 1)
        torch.cuda.synchronize()
        pools.engine.hold("h2d")  # so that no layer has landed when it is waited for
        load = pools.engine.load([3], [5])
        with torch.cuda.stream(stream):
            torch.cuda._sleep(2_000_000_000)  # a second
        for layer in range(LAYERS):
            load.wait_layer(layer, stream)
        pools.engine.release("h2d")
        assert load.wait(LONG)
        assert not stream.query()  # it is not there yet
        assert waits_of(pools.engine) == (0, 0)
        stream.synchronize()
        for layer in range(LAYERS):
            load.wait_layer(layer, stream)
        stream.synchronize()
        assert waits_of(pools.engine) == (0, 0)
        assert pools.device_holds(5, 1)


@ways
@pytest.mark.parametrize("moved", [0, 1])
def test_a_load_that_fails_was_waited_for_too(way: str, moved: int) -> None:
    """moved: pages that are copied first; with none the host lets the streams go."""
    streams = [torch.cuda.Stream() for _ in range(2)]
    with Pools(FORMAT, io_backend=way) as pools:
        pools.engine.hold("h2d")
        pools.engine.fail_next("h2d", moved)
        load = pools.engine.load([3, 4], [5, 6])
        reals = [Real(stream) for stream in streams]
        for stream in streams:
            for layer in range(LAYERS):
                load.wait_layer(layer, stream)
        stay_held()
        pools.engine.release("h2d")
        assert load.wait_end(LONG) and load.error is not None
        count, waited = waits_of(pools.engine)
        assert 2 <= count <= (2 if moved == 0 else 2 * LAYERS)
        # Where the host lets them go, two clocks are compared.
        most = sum(real.nanoseconds() for real in reals) + 200_000
        assert 2 * HELD_NS <= waited <= most


@ways
def test_many_layers_and_two_streams(way: str) -> None:
    streams = [torch.cuda.Stream() for _ in range(2)]
    with Pools(MANY, device_pages=40, host_pages=40, io_backend=way) as pools:
        for page in range(40):
            pools.fill_host(page, page)
        pools.engine.hold("h2d")
        load = pools.engine.load(list(range(40)), list(range(39, -1, -1)))
        reals = [Real(stream) for stream in streams]
        for layer in range(61):
            for stream in streams:
                load.wait_layer(layer, stream)
        stay_held()
        pools.engine.release("h2d")
        assert load.wait(LONG)
        count, waited = waits_of(pools.engine)
        assert 2 <= count <= 2 * 61
        most = sum(real.nanoseconds() for real in reals)
        assert 2 * HELD_NS <= waited <= most + 2 * 61 * 1_000
        assert all(pools.device_holds(39 - page, page) for page in range(40))


def test_more_streams_than_may_wait_for_flags() -> None:
    streams = [torch.cuda.Stream() for _ in range(6)]
    with Pools(MANY, device_pages=40, host_pages=40) as pools:
        blocker = torch.cuda.Stream()
        with torch.cuda.stream(blocker):
            torch.cuda._sleep(400_000_000)  # 0.2 s or more: the load is behind it on the device
        load = pools.engine.load(list(range(40)), list(range(40)), stream=blocker)
        reals = [Real(stream) for stream in streams]
        for stream in streams:
            for layer in range(61):
                load.wait_layer(layer, stream)
        assert load.wait(LONG)
        count, waited = waits_of(pools.engine)
        assert 6 <= count <= 6 * 61
        assert 0 < waited <= sum(real.nanoseconds() for real in reals) + 6 * 61 * 1_000


@ways
def test_a_save_whose_layers_are_waited_for(way: str) -> None:
    stream = torch.cuda.Stream()
    with Pools(FORMAT, io_backend=way) as pools:
        pools.engine.hold("d2h")
        save = pools.engine.save([3], [5])
        save.wait_layer(LAYERS - 1, stream)
        stay_held()
        pools.engine.release("d2h")
        assert save.wait(LONG)
        count, waited = waits_of(pools.engine, "d2h")
        assert count == 1 and waited >= HELD_NS
        assert waits_of(pools.engine) == (0, 0)


@ways
def test_a_stream_may_be_gone_before_the_layer_lands(way: str) -> None:
    with Pools(FORMAT, io_backend=way) as pools:
        pools.engine.hold("h2d")
        load = pools.engine.load([3], [5])
        handle = new_stream()
        for layer in range(LAYERS):
            load.wait_layer(layer, handle)
        destroy(handle)
        stay_held()
        pools.engine.release("h2d")
        assert load.wait(LONG)
        assert waits_of(pools.engine)[0] >= 1 and waits_of(pools.engine)[1] >= HELD_NS
        torch.cuda.synchronize()


def new_stream() -> int:
    """Not one of torch's, which are never destroyed."""
    handle = ctypes.c_void_p()
    assert int(torch.cuda.cudart().cudaStreamCreate(ctypes.addressof(handle))) == 0
    assert handle.value
    return handle.value


def destroy(handle: int) -> None:
    assert int(torch.cuda.cudart().cudaStreamDestroy(handle)) == 0


@ways
def test_the_engine_may_close_meanwhile(way: str) -> None:
    stream = torch.cuda.Stream()
    pools = Pools(FORMAT, io_backend=way)
    pools.engine.hold("h2d")
    load = pools.engine.load([3], [5])
    for layer in range(LAYERS):
        load.wait_layer(layer, stream)
    stay_held()
    pools.engine.close()
    assert load.done()
    count, waited = waits_of(pools.engine)
    assert 1 <= count <= LAYERS and waited >= HELD_NS
    stream.synchronize()
    load.wait_layer(0, stream)
    assert waits_of(pools.engine) == (count, waited)


@ways
def test_an_engine_may_not_measure(way: str) -> None:
    stream = torch.cuda.Stream()
    with Pools(FORMAT, io_backend=way, time_waits=False) as pools:
        pools.fill_host(3, 1)
        for moved in (None, 0):
            pools.engine.hold("h2d")
            if moved is not None:
                pools.engine.fail_next("h2d", moved)
            load = pools.engine.load([3], [5])
            for layer in range(LAYERS):
                load.wait_layer(layer, stream)
            time.sleep(0.01)
            pools.engine.release("h2d")
            assert load.wait_end(LONG)
            stream.synchronize()
        assert waits_of(pools.engine) == (0, 0)
        assert pools.device_holds(5, 1)


def test_many_rounds_add_up_and_every_byte_is_right() -> None:
    """Waits in front of, beside and behind loads; the sum is never more than the streams' time."""
    streams = [torch.cuda.Stream() for _ in range(2)]
    with Pools(MANY, device_pages=24, host_pages=24) as pools:
        for page in range(24):
            pools.fill_host(page, page)
        torch.cuda.synchronize()
        reals = [Real(stream) for stream in streams]
        before = (0, 0)
        for turn in range(60):
            shift = turn % 24
            pages = [(page + shift) % 24 for page in range(24)]
            load = pools.engine.load(list(range(24)), pages, stream=streams[0])
            for layer in range(61):
                load.wait_layer(layer, streams[turn % 2])
                if layer == turn:
                    load.wait_layer(60, streams[0])
            assert load.wait(LONG)
            now = waits_of(pools.engine)
            assert now[0] >= before[0] and now[1] >= before[1]
            assert now[0] - before[0] <= 62
            before = now
            for stream in streams:
                stream.synchronize()
            if turn % 20 == 19:
                assert all(pools.device_holds(pages[page], page) for page in range(24))
        # Between two loads the streams are idle, which is no wait for a layer.
        assert before[1] <= sum(real.nanoseconds() for real in reals)


def test_a_load_back_of_a_cache() -> None:
    fmt = hc.formats.dsa(3, page_size=4)
    stream = torch.cuda.Stream()
    with hc.HiCache(fmt, device="cuda", device_pages=16, host_pages=16) as cache:
        pages = cache.allocate(2)
        cache.insert(range(8), pages, stream=stream)
        assert cache.drain(LONG) and cache.evict_device(8) == 8
        for fails in (False, True):
            before = cache.stats()
            with hold(cache, "h2d"):
                if fails:
                    fail_next(cache, "h2d")
                load = cache.load_back(cache.match_prefix(range(8)))
                for layer in range(3):
                    load.wait_layer(layer, stream)
                stay_held()
                assert cache.stats().exposed_waits == before.exposed_waits
            stream.synchronize()
            assert cache.drain(LONG)
            load.release(stream)
            after = cache.stats()
            assert 1 <= after.exposed_waits - before.exposed_waits <= 3
            waited = after.exposed_wait_seconds - before.exposed_wait_seconds
            assert waited >= HELD_NS * 1e-9
            if not fails:
                assert cache.evict_device(8) == 8
        cache.check()


@ways
@pytest.mark.parametrize("counted", [True, False])
def test_waits_and_layers_are_on_the_timeline(way: str, counted: bool) -> None:
    """With the device's times, which are those of the host's clock but for some microseconds."""
    off = 200_000  # nanoseconds that we grant
    stream = torch.cuda.Stream()
    with Pools(MANY, device_pages=40, host_pages=40, io_backend=way, time_waits=counted) as pools:
        pools.engine.timeline.start()
        pools.engine.hold("h2d")
        submitted = time.monotonic_ns()
        load = pools.engine.load(list(range(40)), list(range(40)))
        for layer in range(61):
            load.wait_layer(layer, stream)
        stay_held()
        released = time.monotonic_ns()
        pools.engine.release("h2d")
        assert load.wait(LONG)
        over = time.monotonic_ns()
        spans = pools.engine.timeline.spans()
        waits = [span for span in spans if span.kind == "wait"]
        groups = [span for span in spans if span.kind == "layers"]
        assert waits and groups
        assert all(span.stream == stream.cuda_stream for span in waits)
        waited = sum(span.end - span.begin for span in waits)
        assert waited >= HELD_NS
        assert waits_of(pools.engine) == ((len(waits), waited) if counted else (0, 0))
        assert submitted - off <= waits[0].begin <= released - HELD_NS + off
        assert all(span.end <= over + off for span in waits)
        layers = [layer for g in groups for layer in range(g.first_layer, g.last_layer + 1)]
        assert layers == list(range(61))
        assert not any(span.seen_by_host for span in groups)
        assert groups[0].begin >= released - off
        assert all(a.end <= b.end + off for a, b in itertools.pairwise(groups))
        ends = {layer: g.end for g in groups for layer in range(g.first_layer, g.last_layer + 1)}
        assert all(abs(span.end - ends[span.first_layer]) <= off for span in waits)
