"""A host tier that grows while its memory gets ready: what holds after every step."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import threading
import warnings
from collections.abc import Callable, Iterator

import pytest
from checked_cache import LONG, PAGE, Checked
from engine import Engine

import hicache_nsa as hc
from hicache_nsa import testing

STEP = 4096
SMALL = {"prepare_first": STEP, "prepare_step": STEP}


@pytest.fixture(autouse=True)
def held() -> Iterator[None]:
    with testing.hold_preparation():
        yield


def ready_pages(cache: hc.HiCache) -> int:
    return cache.host_pool.ready_bytes // cache.format.page_bytes


def prompt(number: int, pages: int = 1) -> list[int]:
    return [number * 1000 + i for i in range(pages * PAGE)]


@pytest.mark.parametrize("layout", ["page_first", "page_first_direct"])
def test_pages_are_handed_out_once_they_are_ready_and_not_before(layout: str) -> None:
    with Checked(8, 40, layout=layout, **SMALL) as c:
        seen = []
        for number in range(60):
            c.put(prompt(number))
            assert c.drain(LONG)
            host = c.stats().host
            seen.append(host.total_pages)
            assert host.total_pages == ready_pages(c.cache)
            assert host.ready_bytes == c.host_pool.ready_bytes
            assert host.total_bytes == c.host_pool.nbytes == 40 * c.format.page_bytes
            assert host.free_pages + host.evictable_pages == host.total_pages
            for node in c.tree.nodes():
                assert (node.host_pages < host.total_pages).all()
            assert c.hit(prompt(number)) == (PAGE, 0)
            testing.step_preparation(c.cache)
        assert seen == sorted(seen)
        assert seen[0] < 10 and seen[-1] == 40
        assert len(set(seen)) > 8
        assert not c.host_pool.growing


def test_a_save_that_finds_no_room_yet_is_refused_and_later_ones_are_made() -> None:
    with Checked(8, 8, prepare_first=0, prepare_step=STEP) as c:
        assert c.stats().host.total_pages == 0
        c.put(prompt(0))
        assert c.drain(LONG)
        assert c.stats().refused_save_tokens == PAGE
        testing.finish_preparation(c.cache)
        assert c.host_pool.wait_ready(LONG)
        c.put(prompt(1))
        assert c.drain(LONG)
        assert c.stats().saved_tokens == PAGE
        assert c.host == (7, 1, 0, 0)


def test_growth_is_taken_in_by_poll_and_by_any_call() -> None:
    calls: list[Callable[[Checked], object]] = [
        lambda c: c.poll(),
        lambda c: c.match_prefix(prompt(5)),
        lambda c: c.stats(),
        lambda c: c.free(c.allocate(1)),
        lambda c: c.evict_host(0),
        lambda c: c.drain(LONG),
        lambda c: c.reset(),
    ]
    with Checked(8, 40, **SMALL) as c:
        for call in calls:
            before = c.host_pool.total_pages
            while ready_pages(c.cache) == before:
                testing.step_preparation(c.cache)
            assert c.host_pool.total_pages == before
            call(c)
            assert c.host_pool.total_pages == ready_pages(c.cache) > before


def test_copies_in_flight_while_the_tier_grows() -> None:
    with Checked(16, 40, **SMALL) as c:
        c.put(prompt(0))
        assert c.drain(LONG)
        c.evict_device(PAGE)
        with testing.hold(c.cache, "h2d"), testing.hold(c.cache, "d2h"):
            load = c.start_load(prompt(0))
            c.put(prompt(1))
            for _ in range(10):
                testing.step_preparation(c.cache)
                c.poll()
        assert load.wait(LONG)
        load.release()
        c.drain(LONG)
        assert c.hit(prompt(0)) == c.hit(prompt(1)) == (PAGE, 0)


class GrowingEngine(Engine):
    """Its pool becomes ready by steps of the random history."""

    def more_steps(self) -> dict[Callable[[], None], int]:
        return {self.grow: 12}

    def grow(self) -> None:
        testing.step_preparation(self.cache)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("write_policy", ["write_through", "write_back"])
def test_random_histories_of_a_tier_that_grows(seed: int, write_policy: str) -> None:
    engine = GrowingEngine(
        seed, device_pages=24, host_pages=48, write_policy=write_policy, prepare_first=2 * STEP,
        prepare_step=STEP,
    )  # fmt: skip
    sizes = set()
    for _ in range(150):
        engine.step()
        sizes.add(engine.cache.host_pool.total_pages)
    assert len(sizes) > 5
    testing.finish_preparation(engine.cache)
    assert engine.cache.host_pool.wait_ready(LONG)
    engine.step()
    for stack in engine.held.values():
        stack.close()
    engine.cache.drain(LONG)
    engine.cache.check()
    engine.cache.close()


def test_invalidate_and_clear_while_it_grows() -> None:
    with Checked(16, 40, **SMALL) as c:
        for number in range(12):
            c.put(prompt(number))
            c.drain(LONG)
            testing.step_preparation(c.cache)
            if number == 5:
                c.invalidate()
            if number == 9:
                c.clear()
        assert c.hit(prompt(11)) == (PAGE, 0)
        assert c.hit(prompt(4)) == c.hit(prompt(8)) == (0, 0)


# -- who waits for all of it ---------------------------------------------------------------------


def blocks_until_finished(make: Callable[[], object], pools: list[hc.HostPool]) -> object:
    made: list[object] = []
    thread = threading.Thread(target=lambda: made.append(make()))
    thread.start()
    thread.join(0.2)
    assert thread.is_alive() and not made
    for pool in pools:
        testing.finish_preparation(pool)
    thread.join(LONG)
    assert not thread.is_alive()
    return made[0]


def test_an_engine_alone_waits_for_all_of_its_pool() -> None:
    fmt = hc.formats.dsa(2, page_size=PAGE)
    host = hc.HostPool(fmt, pages=40, **SMALL)
    assert host.free_pages == host.total_pages == 40
    assert host.ready_bytes == 0
    assert not host.wait_ready(0.0)
    device = hc.DevicePool(fmt, pages=4)
    engine = blocks_until_finished(lambda: hc.TransferEngine(device, host), [host])
    assert isinstance(engine, hc.TransferEngine)
    assert host.ready_bytes == host.nbytes and host.wait_ready(0)
    assert engine.save([0, 1], [39, 0]).wait(LONG)
    engine.close()


@pytest.mark.parametrize("options", [{"acks": "poll"}, {"layout": "layer_first"}])
def test_ranks_and_layer_first_wait_for_all_of_it(options: dict[str, str]) -> None:
    made: list[hc.HostPool] = []
    original = hc.HostPool.memory_for

    def watch(self: hc.HostPool, device: str):
        made.append(self)
        return original(self, device)

    fmt = hc.formats.dsa(2, page_size=PAGE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hc.HostPool, "memory_for", watch)
        cache = blocks_until_finished(
            lambda: hc.HiCache(fmt, device_pages=4, host_pages=40, **options, **SMALL), made
        )
    assert isinstance(cache, hc.HiCache)
    assert cache.stats().host.total_pages == 40
    assert not cache.host_pool.growing
    cache.check()
    cache.close()


def test_a_pool_whose_pages_are_in_use_already_is_waited_for() -> None:
    fmt = hc.formats.dsa(2, page_size=PAGE)
    host = hc.HostPool(fmt, pages=40, **SMALL)
    pages = host.allocate(3)
    device = hc.DevicePool(fmt, pages=4)
    engine = blocks_until_finished(
        lambda: hc.TransferEngine(device, host, wait_ready=False), [host]
    )
    assert (host.free_pages, host.total_pages) == (37, 40)
    host.free(pages)
    assert isinstance(engine, hc.TransferEngine)
    engine.close()


# -- what goes wrong -----------------------------------------------------------------------------


@contextlib.contextmanager
def no_access(address: int) -> Iterator[None]:
    """A page of memory that cannot be touched."""
    libc = ctypes.CDLL(None, use_errno=True)

    def protect(how: int) -> None:
        args = ctypes.c_void_p(address), ctypes.c_size_t(mmap.PAGESIZE), ctypes.c_int(how)
        assert libc.mprotect(*args) == 0

    protect(0)
    try:
        yield
    finally:
        protect(mmap.PROT_READ | mmap.PROT_WRITE)


def test_memory_that_ends_early_is_told_by_the_next_call_and_the_cache_goes_on() -> None:
    with Checked(8, 40, **SMALL) as c:
        memory = c.host_pool.memory
        with no_access(memory.address + 5 * STEP):
            for _ in range(4):
                testing.step_preparation(c.cache)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                c.poll()
            testing.step_preparation(c.cache)
        with pytest.warns(RuntimeWarning, match=f"ends at {5 * STEP} of {c.host_pool.nbytes}"):
            c.poll()
        with pytest.raises(hc.HiCacheError, match=f"ends at {5 * STEP}"):
            c.host_pool.wait_ready(LONG)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # told once
            for number in range(10):
                c.put(prompt(number))
                assert c.drain(LONG)
        assert c.stats().host.total_pages == 5 * STEP // c.format.page_bytes
        assert not c.host_pool.growing


def test_a_must_that_does_not_come_is_an_error_of_the_next_call(monkeypatch) -> None:
    """As ``pin_memory=True`` for a later chunk: raised once, before anything changes."""
    with Checked(8, 40, **SMALL) as c:

        class Refused:
            """The memory, with a note as the core makes it."""

            def __init__(self, memory) -> None:
                self._memory = memory
                self._notes = [(False, "a warning"), (True, "chunk 3 of 4 failed")]

            def __getattr__(self, name: str):
                return getattr(self._memory, name)

            def take_ready(self):
                ready, _, _ = self._memory.take_ready()
                notes, self._notes = self._notes, []
                return ready, True, notes

        monkeypatch.setattr(c.host_pool, "_memory", Refused(c.host_pool.memory))
        with (
            pytest.warns(RuntimeWarning, match="a warning"),
            pytest.raises(hc.HiCacheError, match="chunk 3 of 4"),
        ):
            c.cache.match_prefix(prompt(0))
        c.put(prompt(0))
        assert c.drain(LONG)
        assert c.hit(prompt(0)) == (PAGE, 0)
