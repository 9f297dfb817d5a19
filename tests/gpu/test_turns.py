"""Copies of different ways through one engine: the order of submission decides what is where."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from curves import TURN_PAGES, TURN_RING, TURNS
from gpu_pools import WAYS, Pools, format_of, gappy_format, torch
from mirror import Mirror

from hicache_nsa import testing

layouts = pytest.mark.parametrize("layout", ["layer_first", "page_first"])
FORMAT = format_of(656, rows=16, layers=4)
HINTS = {"layerwise": True, "beside_compute": False}
# Each way follows each other one; a long copy is always followed by a short one of its pages.
TURN = ("staged", "kernel", "staged", "direct", "kernel", "direct", "staged", "direct", "kernel")


@layouts
@pytest.mark.parametrize("direction", ["h2d", "d2h"])
def test_the_last_copy_into_a_page_wins_whatever_ways_they_take(direction, layout) -> None:
    """Sources lie apart; a target of 1 or 2 pages is one of the 200 that were on their way."""
    rng = np.random.default_rng(11)
    options = {"link_curve": TURNS, "staging_bytes": TURN_RING}
    with Pools(FORMAT, 210, 210, layout=layout, **options) as pools:
        mirror = Mirror(pools)
        rounds = 5
        for _ in range(rounds):
            with testing.hold(pools.engine, direction):  # one follows the other without a gap
                for way in TURN:
                    count = TURN_PAGES[way]
                    host, device = (rng.permutation(210)[:count] for _ in range(2))
                    mirror.submit(direction, host, device, **HINTS)
            mirror.settle()
        taken = pools.engine.counters()[direction]
        assert {way: taken[way] for way in WAYS} == {w: rounds * TURN.count(w) for w in WAYS}


@layouts
@pytest.mark.parametrize("way", ["auto", *WAYS])
def test_a_page_is_loaded_right_after_it_was_saved_and_the_other_way_round(way, layout) -> None:
    rng = np.random.default_rng(12)
    options = {"link_curve": TURNS, "staging_bytes": TURN_RING, "io_backend": way}
    with Pools(FORMAT, 210, 210, layout=layout, **options) as pools:
        mirror = Mirror(pools)
        for turn in range(18):
            count = TURN_PAGES[TURN[turn % len(TURN)]]
            host, device, other = (rng.permutation(210)[:count] for _ in range(3))
            if turn % 2:
                mirror.submit("d2h", host, device, **HINTS)
                mirror.submit("h2d", host, other, **HINTS)  # reads what is being saved
                mirror.submit("d2h", rng.permutation(host), other, **HINTS)
            else:
                mirror.submit("h2d", host, device, **HINTS)
                mirror.submit("d2h", other, device, **HINTS)  # reads what is being loaded
                mirror.submit("h2d", other, rng.permutation(device), **HINTS)
        mirror.settle()


@layouts
@pytest.mark.parametrize("way", ["auto", *WAYS])
def test_both_directions_at_once_with_random_pages(way, layout) -> None:
    """320 copies of random pages, layers and hints, some of which fail; then every byte."""
    rng = np.random.default_rng(13)
    options = {"link_curve": TURNS, "staging_bytes": 4 * 6_920, "io_backend": way}
    with Pools(gappy_format(), 24, 28, layout=layout, **options) as pools:
        mirror = Mirror(pools)
        failures = 0
        for turn in range(20):
            with contextlib.ExitStack() as held:
                for direction in ("h2d", "d2h")[: turn % 3]:
                    held.enter_context(testing.hold(pools.engine, direction))
                for _ in range(16):
                    count = int(rng.integers(1, 20))
                    layers = rng.permutation(12)[: rng.integers(1, 13)].tolist()
                    fails = int(rng.integers(0, count)) if rng.random() < 0.1 else None
                    failures += fails is not None
                    mirror.submit(
                        str(rng.choice(["h2d", "d2h"])),
                        rng.permutation(28)[:count],
                        rng.permutation(24)[:count],
                        None if rng.random() < 0.5 else layers,
                        fails_after=fails,
                        layerwise=[None, True, False][rng.integers(3)],
                        beside_compute=[None, True, False][rng.integers(3)],
                    )
            mirror.settle()
        counters = pools.engine.counters()
        assert failures and sum(taken["failed"] for taken in counters.values()) == failures
        for taken in counters.values():
            assert taken["submitted"] == taken["copies"] + taken["failed"] > 100
            assert way == "auto" or all(taken[w] == 0 for w in WAYS if w != way)


@pytest.mark.parametrize("way", WAYS)
def test_a_load_reads_host_pages_after_the_work_it_has_to_follow(way) -> None:
    """The engine's own stream brings the bytes into the pinned host page, late."""
    compute = torch.cuda.Stream()
    with Pools(FORMAT, 4, 4, io_backend=way) as pools:
        host = torch.from_numpy(pools.host.view())
        assert host.is_pinned()
        fresh = torch.empty(host.shape, dtype=torch.uint8, device="cuda")
        for turn in range(10):
            fresh.fill_(turn)
            torch.cuda.synchronize()
            with torch.cuda.stream(compute):
                torch.cuda._sleep(20_000_000)
                host.copy_(fresh, non_blocking=True)
            assert not compute.query(), "the copy into the host pool blocked the host"
            assert pools.engine.load([1, 2], [3, 0], stream=compute).wait(30)
            for page in (0, 3):
                assert all((view == turn).all() for view in pools.device_page(page).values())
