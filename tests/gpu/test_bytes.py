"""F06, F07, F33: the right bytes and no others, on every way, layout and arrangement."""

from __future__ import annotations

import numpy as np
import pytest
from gpu_pools import ARRANGEMENTS, GUARD, LAYOUTS, ROWS, WAYS, Pools, format_of

import hicache_nsa as hc

ways = pytest.mark.parametrize("way", WAYS)
layouts = pytest.mark.parametrize("layout", LAYOUTS)

HOST = [7, 0, 4, 5, 6, 1]
DEVICE = [2, 8, 4, 5, 6, 0]  # the run 4..6 is a run on both sides


@ways
@layouts
@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
@pytest.mark.parametrize("row", ROWS)
def test_f07_saved_and_loaded_pages_are_exact(row, arrangement, layout, way) -> None:
    with Pools(format_of(row), arrangement=arrangement, layout=layout, io_backend=way) as pools:
        for page in DEVICE:
            pools.fill_device(page, page)
        before = pools.device_bytes()
        assert pools.engine.save(DEVICE, HOST).wait(30)
        assert np.array_equal(before, pools.device_bytes())
        for host, device in zip(HOST, DEVICE, strict=True):
            assert pools.host_holds(host, device)
        for page in set(range(11)) - set(HOST):
            assert pools.is_guard(page, "host")
        pools.memory.fill_(GUARD)
        assert pools.engine.load(HOST, DEVICE[::-1]).wait(30)
        for device, seed in zip(DEVICE[::-1], DEVICE, strict=True):
            assert pools.device_holds(device, seed)
        for page in set(range(9)) - set(DEVICE):
            assert pools.is_guard(page, "device")
        assert pools.outside_is_guard()
        counters = pools.engine.counters()
        assert counters["d2h"][way] == counters["h2d"][way] == 1


@ways
@layouts
def test_layers_that_are_named_are_copied_and_no_others(layout, way) -> None:
    with Pools(format_of(576, layers=5), layout=layout, io_backend=way) as pools:
        for page in HOST:
            pools.fill_host(page, page)
        ticket = pools.engine.load(HOST, DEVICE, layers=[3, 0])
        assert ticket.wait(30) and ticket.layer_done(3)
        for host, device in zip(HOST, DEVICE, strict=True):
            assert pools.device_holds(device, host, [0, 3])
            rest = pools.device_page(device)
            assert all((v == GUARD).all() for (_, at), v in rest.items() if at in (1, 2, 4))


@pytest.mark.parametrize("way", ["kernel", "staged"])
@layouts
@pytest.mark.parametrize("arrangement", ["layers", "padded"])
def test_a_hundred_layers_at_once(arrangement, layout, way) -> None:
    """More buffers of layers than a block of a kernel looks at together."""
    fmt = format_of(656, layers=100)
    with Pools(fmt, arrangement=arrangement, layout=layout, io_backend=way) as pools:
        for page in HOST:
            pools.fill_host(page, page)
        assert pools.engine.load(HOST, DEVICE, layerwise=False).wait(30)
        for host, device in zip(HOST, DEVICE, strict=True):
            assert pools.device_holds(device, host)
        assert pools.engine.save(DEVICE, HOST[::-1]).wait(30)
        for host, page in zip(HOST[::-1], HOST, strict=True):
            assert pools.host_holds(host, page)
        for page in set(range(9)) - set(DEVICE):
            assert pools.is_guard(page, "device")
        assert pools.outside_is_guard()


@ways
def test_f33_no_pages_and_one_page(way) -> None:
    with Pools(format_of(656), 1, 1, io_backend=way) as pools:
        assert pools.engine.load([], []).wait(0)
        pools.fill_device(0, 3)
        assert pools.engine.save([0], [0]).wait(30) and pools.host_holds(0, 3)
        counters = pools.engine.counters()["h2d"]
        assert all(counters[w] == 0 for w in WAYS)
        for wrong in ([1], [-1]):
            with pytest.raises(ValueError):
                pools.engine.load(wrong, [0])


@ways
@layouts
def test_a_pool_pinned_in_many_chunks(layout, way) -> None:
    """Chunks end inside pages and rows: no operation may cross their borders."""
    options = {"io_backend": way, "pin_chunk_bytes": 3 * 4096}
    with Pools(format_of(1152), layout=layout, arrangement="padded", **options) as pools:
        assert pools.engine.counters()["h2d"]["submitted"] == 0
        for page in range(9):
            pools.fill_device(page, page)
        assert pools.engine.save(list(range(9)), list(range(1, 10))).wait(30)
        assert all(pools.host_holds(page + 1, page) for page in range(9))
        pools.memory.fill_(GUARD)
        assert pools.engine.load(list(range(1, 10)), list(range(9))).wait(30)
        assert all(pools.device_holds(page, page) for page in range(9))


@pytest.mark.parametrize("layout", ["page_first", "layer_first"])
def test_a_pageable_pool(layout) -> None:
    with Pools(format_of(656), layout=layout, pin_memory=False) as pools:
        pools.fill_device(3, 3)
        assert pools.engine.save([3], [2]).wait(30) and pools.host_holds(2, 3)
        assert pools.engine.load([2], [5]).wait(30) and pools.device_holds(5, 3)
        assert pools.engine.counters()["d2h"]["direct"] == 1
    with pytest.warns(RuntimeWarning, match="pinned host pool"):
        Pools(format_of(656), io_backend="kernel", pin_memory=False).engine.close()


@pytest.mark.timeout(300)
@ways
@pytest.mark.parametrize("layout", ["page_first", "layer_first"])
def test_f06_offsets_beyond_two_and_four_gib(layout, way) -> None:
    """110,016 tokens of 40,016 B in a 4.40 GB pool."""
    fmt = hc.formats.mla(61, kv_dtype="fp8_ds_mla", page_size=64)
    pages = [0, 59_968 // 64, 107_392 // 64]
    assert 59_968 * fmt.token_bytes > 2**31 and 107_392 * fmt.token_bytes > 2**32
    with Pools(fmt, 110_016 // 64, 110_016 // 64, layout=layout, io_backend=way) as pools:
        for page in pages:
            pools.fill_device(page, page)
        assert pools.engine.save(pages, pages).wait(60)
        assert all(pools.host_holds(page, page) for page in pages)
        assert all(pools.is_guard(page + 1, "host") for page in pages)
        pools.memory.fill_(GUARD)
        assert pools.engine.load(pages, pages[::-1]).wait(60)
        for device, seed in zip(pages[::-1], pages, strict=True):
            assert pools.device_holds(device, seed)
            assert pools.is_guard(device + 1, "device")
        with pytest.raises(ValueError):
            pools.engine.load([2**31 + 1], [0])
