"""Pools that a GPU registers in the background, while copies run and other threads go on."""

from __future__ import annotations

import numpy as np
import pytest
from gpu_pools import LAYOUTS, WAYS, Pools, format_of, torch
from heartbeat import heartbeat
from mirror import Mirror
from scenarios import there_and_back

import hicache_nsa as hc
from hicache_nsa import _core, testing

STEP = 1 << 20
CURVE = _core.LinkCurve.typical()


def test_f51_a_cache_serves_while_its_pool_is_pinned() -> None:
    fmt = hc.formats.dsa(4)
    with heartbeat(0.25) as gaps:
        cache = hc.HiCache(
            fmt, device="cuda", device_pages=16, host_size="4GiB", pin_memory=True,
            prepare_first=0, link_curve=CURVE,
        )  # fmt: skip
        served, number = 0, 0
        while cache.host_pool.growing:
            served += cache.stats().host.total_pages < cache.host_pool.num_pages
            cache.insert([number] * fmt.page_size, cache.allocate(1))
            number += 1
        assert served
        assert cache.host_pool.memory_kind.pinned_bytes == cache.host_pool.nbytes
        assert cache.stats().host.total_pages == cache.host_pool.num_pages
        cache.check()
        cache.close()
    assert len(gaps) > 2
    torch.ones(10, device="cuda").sum().item()


def test_f51_closing_in_the_middle_is_quick_and_leaves_nothing_registered() -> None:
    fmt = hc.formats.dsa(4)
    for _ in range(5):
        with heartbeat(0.25):
            cache = hc.HiCache(
                fmt, device="cuda", device_pages=16, host_size="2GiB", pin_memory=True,
                prepare_first=0, link_curve=CURVE,
            )  # fmt: skip
            memory = cache.host_pool.memory
            cache.close()
        assert memory.registered_bytes == (0, 0)
        torch.ones(10, device="cuda").sum().item()


@pytest.mark.parametrize("way", ("auto", *WAYS))
@pytest.mark.parametrize("layout", [each for each in LAYOUTS if each != "layer_first"])
def test_copies_beside_registrations_are_right(layout: str, way: str) -> None:
    """After each step copies over all that is ready, in both directions."""
    fmt = format_of(656, rows=16, layers=4)
    with testing.hold_preparation():
        host = hc.HostPool(fmt, pages=200, layout=layout, prepare_first=STEP, prepare_step=STEP)
        pools = Pools(fmt, 40, host=host, io_backend=way, wait_ready=False, link_curve=CURVE)
    rng = np.random.default_rng(1)
    with pools:
        mirror = Mirror(pools)
        while host.growing:
            testing.step_preparation(host)
            host.take_in_ready()
            count = min(host.total_pages, 20)
            for direction in ("d2h", "h2d"):
                on_host = rng.permutation(host.total_pages)[:count]
                mirror.submit(direction, on_host, rng.permutation(40)[:count])
        mirror.settle()
        assert host.memory_kind.pinned_bytes == host.nbytes


def test_loads_and_saves_go_on_while_the_rest_is_pinned() -> None:
    """Nothing is held: registrations of some MiB, one after the other, beside the traffic."""
    fmt = format_of(656, rows=16, layers=4)
    host = hc.HostPool(fmt, size="1GiB", prepare_first=64 << 20, prepare_step=STEP)
    with Pools(fmt, 40, host=host, wait_ready=False, link_curve=CURVE) as pools:
        pages = 32
        for page in range(pages):
            pools.fill_host(page, page)
        turns = 0
        while host.growing or turns < 3:
            loads = pools.engine.load(range(pages), range(pages))
            saves = pools.engine.save(range(pages), range(pages, 2 * pages))
            assert loads.wait(30) and saves.wait(30)
            host.take_in_ready()
            turns += 1
        assert all(pools.device_holds(page, page) for page in range(pages))
        assert all(pools.host_holds(pages + page, page) for page in range(pages))


def test_a_tier_that_grew_holds_what_was_saved() -> None:
    fmt = format_of(656, rows=16, layers=4)
    with hc.HiCache(
        fmt, device="cuda", device_pages=32, host_pages=96, link_curve=CURVE, prepare_first=0,
        prepare_step=STEP,
    ) as cache:  # fmt: skip
        assert cache.host_pool.wait_ready(30)
        cache.poll()
        there_and_back(cache)
