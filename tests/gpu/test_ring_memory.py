"""A staging ring that the GPU has no room for: a warning, and copies go on by the other ways."""

from __future__ import annotations

import numpy as np
import pytest
from gpu_pools import WAYS, Pools, format_of, torch
from mirror import Mirror

from hicache_nsa import _core

FORMAT = format_of(656)
CURVE = _core.LinkCurve.typical()


def too_much() -> int:
    return 2 * torch.cuda.mem_get_info()[1]


TOO_MUCH = {"the GPU twice": too_much, "2^62": lambda: 2**62, "2^63-1": lambda: 2**63 - 1}


@pytest.mark.parametrize("way", ["auto", *WAYS])
@pytest.mark.parametrize("bytes_of", TOO_MUCH.values(), ids=TOO_MUCH)
def test_copies_go_on_without_a_ring(way, bytes_of) -> None:
    rng = np.random.default_rng(5)
    with pytest.warns(RuntimeWarning, match=r"Allocating \d+ bytes .*\(cuda.*staging ring") as told:
        pools = Pools(FORMAT, io_backend=way, staging_bytes=bytes_of(), link_curve=CURVE)
    assert [each.category for each in told].count(RuntimeWarning) == 1
    works_on()
    with pools:
        mirror = Mirror(pools)
        for _ in range(4):
            host, device = rng.permutation(11)[:6], rng.permutation(9)[:6]
            mirror.submit("d2h", host, device)
            mirror.submit("h2d", host, rng.permutation(device))
        mirror.settle()
        for taken in pools.engine.counters().values():
            assert taken["staged"] == 0 and taken["direct"] + taken["kernel"] == 4
            assert way not in ("direct", "kernel") or taken[way] == 4
    works_on()


def test_an_engine_after_it_has_a_ring() -> None:
    with pytest.warns(RuntimeWarning, match="staging ring"):
        Pools(FORMAT, staging_bytes=too_much()).engine.close()
    with Pools(FORMAT, io_backend="staged") as pools:
        mirror = Mirror(pools)
        mirror.submit("d2h", [3, 4], [1, 0])
        mirror.settle()
        assert pools.engine.counters()["d2h"]["staged"] == 1


def works_on() -> None:
    """No error is left behind for whoever calls CUDA next."""
    assert torch.ones(10, device="cuda").sum().item() == 10
    torch.cuda.synchronize()


def test_rings_are_given_back() -> None:
    """20 engines with rings that would fill the GPU together."""
    ring = torch.cuda.mem_get_info()[0] // 20
    for _ in range(20):
        pools = Pools(FORMAT, io_backend="staged", staging_bytes=ring)
        pools.fill_device(0, 7)
        torch.cuda.synchronize()
        assert pools.engine.save([0], [1]).wait(30) and pools.host_holds(1, 7)
        assert pools.engine.counters()["d2h"]["staged"] == 1
        pools.engine.close()
        del pools
    works_on()
