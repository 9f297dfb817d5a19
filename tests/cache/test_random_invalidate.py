"""Random work with invalidates in between, copies in flight or not, in one thread and in many."""

from __future__ import annotations

import random
import threading

import numpy as np
import pytest
from checked_cache import LONG, PAGE, Checked
from engine import Engine, fill, identity

import hicache_nsa as hc


class Impatient(Engine):
    """Flushes are invalidates, and copies in flight stay there."""

    def flush(self) -> None:
        held = self.cache.stats()
        before = held.loads_in_flight + held.saves_in_flight
        self.cache.invalidate()
        self.cache.check()
        if self.rng.random() < 0.3:
            self.cache.invalidate()
            self.cache.check()
        if all(self.is_held.values()):
            now = self.cache.stats()
            assert now.loads_in_flight + now.saves_in_flight == before
        self.bad_loads.clear()
        assert not list(self.cache.tree.nodes())
        for request in list(self.requests):
            if self.rng.random() < 0.5 and request.handle is not None:
                self.cache.unlock(request.handle)
            request.handle = None
            self.close_request(request)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("device_pages", "host_pages", "acks", "policy"),
    [
        (24, 40, "auto", "write_through"),
        (16, 8, "poll", "write_through"),
        (40, 12, "poll", "write_through"),
        (24, 40, "auto", "write_back"),
        (16, 8, "poll", "write_back"),
    ],
)
def test_random_work(seed: int, device_pages: int, host_pages: int, acks: str, policy: str) -> None:
    engine = Impatient(
        seed, device_pages=device_pages, host_pages=host_pages, acks=acks, write_policy=policy
    )
    for _ in range(400):
        engine.step()
        if engine.rng.random() < 0.05:
            engine.flush()
            engine.cache.check()
    engine.end()


@pytest.mark.parametrize("acks", ["auto", "poll"])
def test_threads(acks: str) -> None:
    cache = Checked(48, 40, acks=acks).cache
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        rng = random.Random(seed)
        try:
            for _ in range(150):
                one_request(cache, rng)
        except BaseException as error:
            errors.append(error)

    def disturb() -> None:
        rng = random.Random(99)
        try:
            for _ in range(150):
                rng.choice([cache.invalidate, cache.invalidate, cache.poll, cache.check])()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    threads.append(threading.Thread(target=disturb))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors, errors
    cache.invalidate()
    assert cache.drain(LONG)
    cache.check()
    assert (cache.device_pool.free_pages, cache.host_pool.free_pages) == (48, 40)
    cache.close()


def one_request(cache: hc.HiCache, rng: random.Random) -> None:
    tokens = np.repeat([rng.randrange(2) for _ in range(rng.randrange(1, 6))], PAGE)
    pages = cache.allocate(0)
    try:
        match = cache.match_prefix(tokens)
        handle = cache.lock(match)
        load = cache.load_back(match)
        if load is not None:
            load.wait(LONG)
            load.release()
        cache.unlock(handle)
        pages = cache.allocate(len(tokens) // PAGE)
        for index, page in enumerate(pages):
            fill(cache, page, identity(None, tokens, index))
        cache.insert(tokens, pages)
    except hc.OutOfPages:
        cache.poll()
    except hc.StaleHandleError:
        if len(pages):
            cache.free(pages)
