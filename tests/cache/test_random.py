"""Random work on a cache, with every byte checked and check() after every step."""

from __future__ import annotations

import pytest
from engine import Engine

STEPS = 400


@pytest.mark.parametrize("layout", ["page_first", "layer_first", "page_first_direct"])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("device_pages", "host_pages"), [(24, 40), (16, 8), (12, 0), (40, 12)])
def test_random_work(seed: int, layout: str, device_pages: int, host_pages: int) -> None:
    engine = Engine(seed, device_pages=device_pages, host_pages=host_pages, layout=layout)
    for _ in range(STEPS):
        engine.step()
    engine.end()


@pytest.mark.parametrize("policy", ["lfu", "fifo", "mru", "filo", "slru", "priority"])
def test_random_work_under_each_eviction_policy(policy: str) -> None:
    engine = Engine(5, device_pages=16, host_pages=12, eviction_policy=policy)
    for _ in range(STEPS):
        engine.step()
    engine.end()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("policy", ["write_through_selective", "write_back"])
@pytest.mark.parametrize(("device_pages", "host_pages"), [(24, 40), (16, 8), (12, 0), (40, 12)])
def test_random_work_with_later_saves(
    seed: int, policy: str, device_pages: int, host_pages: int
) -> None:
    low_water = 0.2 if policy == "write_back" and seed % 2 else 0.0
    engine = Engine(
        seed,
        device_pages=device_pages,
        host_pages=host_pages,
        write_policy=policy,
        low_water=low_water,
    )
    for _ in range(STEPS):
        engine.step()
    engine.end()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("policy", ["write_through", "write_through_selective", "write_back"])
def test_random_work_with_polled_acks(seed: int, policy: str) -> None:
    engine = Engine(seed, device_pages=24, host_pages=24, acks="poll", write_policy=policy)
    for _ in range(STEPS):
        engine.step()
    engine.end()
