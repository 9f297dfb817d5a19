"""How long computing really waited for layers: ``counters()`` and ``stats()``.

A copy is held until the counters say that its layers were waited for so long, so that no assertion
hangs on how busy the machine is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from case_bytes import wipe
from case_cache import LONG, CaseCache

import hicache_nsa as hc
from hicache_nsa.testing import fail_next, hold

FORMAT = hc.formats.dsa(3, page_size=4)
HELD_NS = 150_000_000  # more than one slice of a wait that a signal may interrupt


def waits_of(engine: hc.TransferEngine, direction: str = "h2d") -> tuple[int, int]:
    counters = engine.counters()[direction]
    return counters["exposed_waits"], counters["exposed_wait_ns"]


def until(true: Callable[[], bool]) -> None:
    limit = time.monotonic() + LONG
    while not true():
        assert time.monotonic() < limit
        time.sleep(0.002)


@contextmanager
def engine_of(**options: object) -> Iterator[hc.TransferEngine]:
    engine = hc.TransferEngine(
        hc.DevicePool(FORMAT, pages=4), hc.HostPool(FORMAT, pages=4), **options
    )
    try:
        yield engine
        engine.check()
    finally:
        engine.close()


def test_layers_that_landed_cost_nothing() -> None:
    with engine_of() as engine:
        load = engine.load([1], [2])
        assert load.wait(LONG)
        with hc.CpuStream() as stream:
            for layer in range(3):
                load.wait_layer(layer)
                load.wait_layer(layer, stream)
        assert waits_of(engine) == (0, 0)


@pytest.mark.parametrize("fails", [False, True])
def test_a_thread_that_waits_for_a_held_load(fails: bool) -> None:
    began = time.perf_counter_ns()
    with engine_of() as engine:
        engine.hold("h2d")
        if fails:
            engine.fail_next("h2d")
        load = engine.load([1], [2])
        thread = threading.Thread(target=load.wait_layer, args=(1,))
        thread.start()
        until(lambda: waits_of(engine)[1] >= HELD_NS)
        engine.release("h2d")
        thread.join()
        count, waited = waits_of(engine)
        assert count == 1  # in several slices
        assert HELD_NS <= waited <= time.perf_counter_ns() - began
        assert load.wait_end(LONG) and (load.error is not None) is fails
        assert waits_of(engine) == (count, waited) and waits_of(engine, "d2h") == (0, 0)
    assert waits_of(engine) == (count, waited)  # also when it is closed


def test_each_of_two_streams_waits_and_only_for_what_is_missing() -> None:
    with engine_of() as engine, hc.CpuStream() as one, hc.CpuStream() as other:
        engine.hold("d2h")
        save = engine.save([1], [2])
        for stream in (one, other):
            for layer in range(3):
                save.wait_layer(layer, stream)
        until(lambda: waits_of(engine, "d2h")[1] >= 2 * HELD_NS)
        assert waits_of(engine, "d2h")[0] == 2
        engine.release("d2h")
        one.synchronize()
        other.synchronize()
        assert 2 <= waits_of(engine, "d2h")[0] <= 6
        assert waits_of(engine) == (0, 0)


def test_a_wait_that_a_closing_engine_ends() -> None:
    with engine_of() as engine, hc.CpuStream() as stream:
        engine.hold("h2d")
        load = engine.load([1], [2])
        load.wait_layer(2, stream)
        until(lambda: waits_of(engine)[1] >= HELD_NS)
        engine.close()
        stream.synchronize()
        assert load.done() and waits_of(engine)[0] == 1 and waits_of(engine)[1] >= HELD_NS


def test_an_engine_may_not_measure() -> None:
    with engine_of(time_waits=False) as engine:
        engine.hold("h2d")
        load = engine.load([1], [2])
        started = threading.Event()

        def wait() -> None:
            started.set()
            load.wait_layer(0)

        thread = threading.Thread(target=wait)
        thread.start()
        assert started.wait(LONG)
        time.sleep(0.02)
        engine.release("h2d")
        thread.join()
        assert waits_of(engine) == (0, 0)


def test_time_waits_is_yes_or_no() -> None:
    for wrong in (1, "yes", None):
        with pytest.raises(TypeError, match="time_waits must be True or False"):
            hc.HiCache(FORMAT, device_pages=4, host_pages=4, time_waits=wrong)
    with hc.HiCache(FORMAT, device_pages=4, host_pages=4, time_waits=False) as cache:
        assert cache.stats().exposed_waits == 0


@pytest.mark.parametrize("fails", [False, True])
def test_stats_have_the_waits_of_load_backs(fails: bool) -> None:
    tokens = list(range(8))
    with CaseCache(32, 32, format=FORMAT) as c, hc.CpuStream() as stream:
        pages = c.allocate(2)
        wipe(c.device_pool, pages)
        c.insert(tokens, pages)
        assert c.drain(LONG) and c.evict_device(8) == 8
        with hold(c.cache, "h2d"):
            if fails:
                fail_next(c.cache, "h2d")
            load = c.load_back(c.match_prefix(tokens))
            for layer in range(3):
                load.wait_layer(layer, stream)
            until(lambda: c.cache.engine.counters()["h2d"]["exposed_wait_ns"] >= HELD_NS)
            assert c.stats().exposed_waits == 1
        stream.synchronize()
        until(load.done)
        load.release()
        stats = c.stats()
        assert 1 <= stats.exposed_waits <= 3
        assert stats.exposed_wait_seconds == waits_of(c.cache.engine)[1] * 1e-9 >= HELD_NS * 1e-9
        c.reset()
        assert c.stats().exposed_waits == stats.exposed_waits  # a flush forgets none
