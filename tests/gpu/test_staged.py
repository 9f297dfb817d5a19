"""The staged way in its corners: small bays used again and again, groups of layers, gaps."""

from __future__ import annotations

import numpy as np
import pytest
from curves import GROUPS
from gpu_pools import ARRANGEMENTS, LAYOUTS, WAYS, Pools, format_of, gappy_format, torch
from mirror import Mirror

from hicache_nsa import testing

layouts = pytest.mark.parametrize("layout", LAYOUTS)

GAPPY = gappy_format()  # 24,192 bytes a page, the largest layer 2,768
BAYS = {
    "one layer": 1,
    "two pages and a half of a layer": 6_920,
    "a record but one layer": 23_900,
    "three records": 3 * 24_192,
    "all pages": 11 * 24_192,
}
RING = 2  # bays
ORDERS = (
    None,
    range(11, -1, -1),
    [2, 3, 4, 5, 9],
    [11],
    [4, 11],
    [6, 5, 7, 8],
    [0, 1, 2, 3, 8, 9, 10, 11],
)


@pytest.mark.parametrize("layout", LAYOUTS[:2])
@pytest.mark.parametrize("bay", BAYS.values(), ids=BAYS)
@pytest.mark.parametrize("group", GROUPS)
def test_bays_of_every_size_and_groups_of_layers(layout, bay, group) -> None:
    """7 of 9 pages: no bay but the last one holds a divisor of that."""
    rng = np.random.default_rng(bay)
    options = {"staging_bytes": RING * bay, "link_curve": GROUPS[group]}
    with Pools(GAPPY, layout=layout, io_backend="staged", **options) as pools:
        mirror = Mirror(pools)
        for layers in ORDERS:
            order = None if layers is None else list(layers)
            for layerwise in (True, False):
                for direction in ("d2h", "h2d"):
                    host, device = rng.permutation(11)[:7], rng.permutation(9)[:7]
                    mirror.submit(direction, host, device, order, layerwise=layerwise)
        mirror.settle()
        counters = pools.engine.counters()
        for direction in ("h2d", "d2h"):
            taken = {way: counters[direction][way] for way in WAYS}
            assert taken == {"direct": 0, "kernel": 0, "staged": 2 * len(ORDERS)}


@layouts
@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
@pytest.mark.parametrize("row", [131, 656])
def test_rows_of_odd_bytes_and_chunks_of_pinned_memory(row, arrangement, layout) -> None:
    """Entries that begin anywhere in a bay, pieces that are cut where a chunk ends."""
    rng = np.random.default_rng(row)
    options = {"staging_bytes": RING * 20_000, "pin_chunk_bytes": 3 * 4096}
    fmt = gappy_format(row, index=33 if row == 131 else 36)
    pools = Pools(fmt, arrangement=arrangement, layout=layout, io_backend="staged", **options)
    with pools:
        mirror = Mirror(pools)
        for count in (9, 5, 1):
            for direction in ("d2h", "h2d"):
                host, device = rng.permutation(11)[:count], rng.permutation(9)[:count]
                mirror.submit(direction, host, device, layerwise=direction == "d2h")
        host = np.arange(2, 9)
        mirror.submit("d2h", host, host - 1)  # neighbours on both sides
        mirror.submit("h2d", host, host[::-1] - 2)  # and on the host alone
        mirror.settle()


def test_a_pool_of_one_page_and_a_layer_in_a_bay() -> None:
    options = {"io_backend": "staged", "staging_bytes": 1, "kernel_blocks": 1}
    with Pools(GAPPY, 1, 1, **options) as pools:
        mirror = Mirror(pools)
        for _ in range(3):
            mirror.submit("d2h", [0], [0])
            mirror.submit("h2d", [], [])
            mirror.submit("h2d", [0], [0], layers=[8, 6])
        mirror.submit("h2d", [0], [0], layers=[])
        mirror.settle()
        assert pools.engine.counters()["d2h"]["staged"] == 3


def test_a_page_for_many_and_many_more_pages_than_a_table_holds() -> None:
    """A source may be named again and again; tables of pages grow from 1,024 on."""
    with Pools(format_of(132, layers=2), 3000, 8, io_backend="staged") as pools:
        mirror = Mirror(pools)
        mirror.submit("h2d", np.arange(3000) % 8, np.arange(3000)[::-1])
        mirror.submit("d2h", np.arange(8), np.arange(8) * 300)
        mirror.submit("h2d", np.full(1025, 5), np.arange(1025) * 2)
        mirror.settle()


@pytest.mark.parametrize("layerwise", [True, False, None])
@pytest.mark.parametrize("beside_compute", [True, False, None])
@pytest.mark.parametrize("way", ["auto", *WAYS])
def test_hints_choose_the_way_and_no_other_bytes(way, layerwise, beside_compute) -> None:
    rng = np.random.default_rng(8)
    hints = {"layerwise": layerwise, "beside_compute": beside_compute}
    with Pools(GAPPY, 30, 30, io_backend=way, staging_bytes=RING * 30_000) as pools:
        mirror = Mirror(pools)
        for count in (0, 1, 6, 30):
            for direction in ("d2h", "h2d"):
                host, device = rng.permutation(30)[:count], rng.permutation(30)[:count]
                mirror.submit(direction, host, device, **hints)
        mirror.settle()
        for taken in pools.engine.counters().values():
            assert sum(taken[each] for each in WAYS) == taken["copies"] - 1 == 3
            assert way == "auto" or taken[way] == 3


def test_save_and_load_take_the_hints() -> None:
    with Pools(GAPPY, io_backend="staged", staging_bytes=RING * 6_920) as pools:
        for page in range(9):
            pools.fill_device(page, page)
        torch.cuda.synchronize()
        assert pools.engine.save(range(9), range(9), beside_compute=True).wait(30)
        pools.memory.fill_(0)
        for beside in (True, False):
            options = {"layerwise": beside, "beside_compute": beside}
            ticket = pools.engine.load([5, 3], [0, 8], layers=[10, 2], **options)
            assert ticket.wait(30) and ticket.layer_done(2) and ticket.layer_done(10)
            assert pools.device_holds(0, 5, [2, 10]) and pools.device_holds(8, 3, [2, 10])
            assert not pools.device_page(0)["latent", 3].any()
        taken = pools.engine.counters()
        assert taken["d2h"]["staged"] == 1 and taken["h2d"]["staged"] == 2


@pytest.mark.parametrize("direction", ["h2d", "d2h"])
@pytest.mark.parametrize("after", [0, 1, 5])
def test_a_copy_that_fails_leaves_the_ring_in_order(direction, after) -> None:
    rng = np.random.default_rng(after)
    with Pools(GAPPY, io_backend="staged", staging_bytes=RING * 6_920) as pools:
        mirror = Mirror(pools)
        with testing.hold(pools.engine, direction):
            for turn in range(6):
                host, device = rng.permutation(11)[:6], rng.permutation(9)[:6]
                fails = after if turn % 3 == 1 else None
                mirror.submit(direction, host, device, fails_after=fails)
        mirror.settle()
        assert pools.engine.counters()[direction]["failed"] == 2


def test_layers_in_small_bays_are_waited_for_by_streams() -> None:
    """Each layer is read on a stream that waits for it alone, while later ones are on their way."""
    reader = torch.cuda.Stream()
    with Pools(GAPPY, 9, 9, io_backend="staged", staging_bytes=1) as pools:
        for turn in range(20):
            for page in range(9):
                pools.fill_host(page, 9 * turn + page)
            pools.memory.fill_(0)
            torch.cuda.synchronize()
            ticket = pools.engine.load(range(9), range(9), layerwise=turn % 2 == 0)
            seen = {}
            with torch.cuda.stream(reader):
                for layer in range(12):
                    ticket.wait_layer(layer)
                    for b in pools.format.buffers:
                        if layer in b.layers:
                            tensor = pools.buffers[b.name][b.layers.index(layer)]
                            seen[b.name, layer] = tensor.clone()
            reader.synchronize()
            read = {key: tensor.cpu() for key, tensor in seen.items()}
            assert ticket.wait(30)
            for key, tensor in read.items():
                wanted = [pools.host.page_view(*key, page) for page in range(9)]
                assert np.array_equal(tensor.numpy(), np.stack(wanted)), key
