"""Every method may be called from any thread: many threads on one cache, every byte checked."""

from __future__ import annotations

import random
import threading
import time

import numpy as np
import pytest
from case_bytes import LAYOUTS, contents, device_holds, fill
from case_cache import FORMAT, LONG, P

import hicache_nsa as hc

THREADS = 8


class Crowd:
    """Threads that work until the time is up; the first error of any of them is raised."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds
        self.errors: list[BaseException] = []
        self.rounds = 0

    def work(self, step, seed: int) -> None:
        rng = random.Random(seed)
        try:
            while time.monotonic() < self.end and not self.errors:
                step(rng)
                self.rounds += 1
        except BaseException as error:
            self.errors.append(error)

    def run(self, *steps) -> None:
        threads = [
            threading.Thread(target=self.work, args=(step, seed), daemon=True)
            for seed, step in enumerate(steps)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LONG)
        assert not any(thread.is_alive() for thread in threads), "a thread hangs"
        if self.errors:
            raise self.errors[0]


def prompt(rng: random.Random) -> list[int]:
    """Up to 6 pages; many share a prefix."""
    return [rng.randrange(2) for _ in range(rng.randrange(1, 7)) for _ in range(P)]


def request(cache: hc.HiCache, rng: random.Random) -> None:
    """The life of a request, as an engine leads it."""
    tokens = prompt(rng)
    known = contents(tokens, P)
    match = cache.match_prefix(tokens)
    handle = cache.lock(match)
    pages = match.device_pages[: handle.device_tokens // P]
    load = None
    if handle.device_tokens == match.device_tokens and match.host_tokens:
        load = cache.load_back(match)
    if load is not None:
        assert load.wait(LONG)
        pages = np.concatenate([pages, load.pages])
    for page, content in zip(pages, known, strict=False):
        assert device_holds(cache.device_pool, page, content), "not the bytes of this prefix"
    try:
        new = cache.allocate(len(known) - len(pages))
    except hc.OutOfPages:
        new = None
    if new is not None:
        for page, content in zip(new, known[len(pages) :], strict=True):
            fill(cache.device_pool, page, content)
        result = cache.insert(tokens, np.concatenate([pages, new]), lock=handle)
        handle = result.handle
        for page, content in zip(result.pages, known, strict=True):
            assert device_holds(cache.device_pool, page, content), "the insert named a wrong page"
    if load is not None:
        load.release()
    cache.unlock(handle)


def quiet(cache: hc.HiCache) -> None:
    """All requests have ended and all copies are in."""
    assert cache.drain(LONG)
    cache.check()
    stats = cache.stats()
    for tier in (stats.device, stats.host):
        assert tier.locked_pages == tier.owned_pages == 0
        assert tier.free_pages + tier.evictable_pages == tier.total_pages
    assert {node.lock_ref for node in cache.tree.nodes()} <= {0}
    cache.close()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_requests_in_many_threads(layout):
    cache = hc.HiCache(FORMAT, device_pages=48, host_pages=40, layout=layout)
    crowd = Crowd(1.2)

    def disturb(rng: random.Random) -> None:
        rng.choice([
            cache.check, cache.poll, cache.stats, lambda: cache.evict_device(rng.randrange(24)),
            lambda: cache.evict_host(rng.randrange(12)), lambda: cache.drain(0.001),
        ])()  # fmt: skip
        time.sleep(0.001)

    steps = [lambda rng: request(cache, rng)] * (THREADS - 1)
    crowd.run(*steps, disturb)
    assert crowd.rounds > 100
    stats = cache.stats()
    assert stats.load_back_tokens and stats.saved_tokens and stats.evicted_device_tokens
    assert stats.failed_loads == stats.failed_saves == 0
    quiet(cache)


def test_requests_and_flushes_in_many_threads():
    """A flush voids what requests hold; they hear of it and start again."""
    cache = hc.HiCache(FORMAT, device_pages=48, host_pages=40)
    crowd = Crowd(1.2)
    mine = threading.local()

    def careful(rng: random.Random) -> None:
        tokens = prompt(rng)
        try:
            match = cache.match_prefix(tokens)
            handle = cache.lock(match)
            load = cache.load_back(match)
            mine.pages = cache.allocate(rng.randrange(3))
            if load is not None:
                load.wait(LONG)
                load.release()
            cache.unlock(handle)
        except (hc.StaleHandleError, hc.OutOfPages):
            pass
        finally:
            pages, mine.pages = getattr(mine, "pages", []), []
            whole = tokens[: len(pages) * P]
            if len(pages) and len(whole) == len(pages) * P and rng.random() < 0.5:
                try:
                    cache.insert(whole, pages)
                except hc.StaleHandleError:
                    cache.free(pages)
            else:
                cache.free(pages)

    def flush(rng: random.Random) -> None:
        rng.choice([cache.reset, cache.reset, cache.clear, cache.invalidate, cache.check])()
        time.sleep(0.003)

    crowd.run(*[careful] * (THREADS - 1), flush)
    assert crowd.rounds > 100
    cache.reset()  # the requests that a flush caught left their locks to it
    quiet(cache)


def test_closing_under_load():
    cache = hc.HiCache(FORMAT, device_pages=48, host_pages=40)
    crowd = Crowd(LONG)
    refused = []

    def until_closed(rng: random.Random) -> None:
        tokens = prompt(rng)
        try:
            match = cache.match_prefix(tokens)
            handle = cache.lock(match)
            load = cache.load_back(match)
            if load is not None:
                load.wait(LONG)
                load.release()
            cache.unlock(handle)
            cache.insert(tokens, cache.allocate(len(tokens) // P))
            cache.drain(0.001)
        except hc.OutOfPages:
            cache.evict_device(64)
        except hc.HiCacheError as error:
            refused.append(str(error))
            crowd.end = 0

    def close(_: random.Random) -> None:
        time.sleep(0.3)
        cache.close()
        crowd.end = 0

    crowd.run(*[until_closed] * THREADS, close)
    assert len(refused) >= 1 and all("closed" in text for text in refused)


def test_one_engine_in_many_threads():
    fmt = hc.formats.dsa(2, page_size=4)
    device, host = hc.DevicePool(fmt, pages=64), hc.HostPool(fmt, pages=64)
    engine = hc.TransferEngine(device, host)
    crowd = Crowd(0.6)

    def round_trip(pages: range):
        def step(rng: random.Random) -> None:
            source, between, target = (rng.sample(pages, 3) for _ in range(3))
            known = [rng.randrange(2**30) for _ in source]
            for page, content in zip(source, known, strict=True):
                fill(device, page, content)
            engine.save(source, between)
            ticket = engine.load(between, target)  # comes after the save by itself
            assert ticket.wait(LONG)
            for page, content in zip(target, known, strict=True):
                assert device_holds(device, page, content)

        return step

    crowd.run(*(round_trip(range(8 * i, 8 * i + 8)) for i in range(THREADS)))
    assert crowd.rounds > 100
    engine.check()
    engine.close()
