"""verify on a GPU: the kernel's digests are those of the bytes, and wrong bytes show."""

from __future__ import annotations

import numpy as np
import pytest
from gpu_pools import ARRANGEMENTS, LAYOUTS, ROWS, WAYS, Pools, format_of, gappy_format, torch

import hicache_nsa as hc
from hicache_nsa import _core, testing

HOST = [7, 0, 4, 5, 6, 1]
DEVICE = [2, 8, 4, 5, 6, 0]
ways = pytest.mark.parametrize("way", WAYS)


def digest_of(pools: Pools, page: int, layer: int) -> int:
    """Of the host bytes, by the host's code; 0 for a layer without any."""
    names = [b.name for b in pools.format.buffers if layer in b.layers]
    views = [pools.host.page_view(name, layer, page) for name in names]
    return _core.page_digest(np.concatenate(views)) if views else 0


def saved(pools: Pools) -> None:
    for page in DEVICE:
        pools.fill_device(page, page)
    assert pools.engine.save(DEVICE, HOST).wait(30)


def check(pools: Pools) -> None:
    """Save, compare every digest with the host's, load, then again with one bit changed."""
    saved(pools)
    for page in HOST:
        for layer in range(pools.format.num_layers):
            assert pools.host.digests.get(page, layer) == digest_of(pools, page, layer)
    assert pools.engine.load(HOST, DEVICE[::-1]).wait(30)
    layers = [n for n in range(pools.format.num_layers) if digest_of(pools, 0, n)]
    for n, layer in enumerate(layers):
        wrong = n % len(HOST)
        nbytes = sum(b.page_bytes for b in pools.format.buffers if layer in b.layers)
        for byte in (0, nbytes // 2, nbytes - 1):
            testing.corrupt(pools.host, HOST[wrong], layer, byte)
            ticket = pools.engine.load(HOST, DEVICE)
            with pytest.raises(hc.TransferError, match=f"host page {HOST[wrong]}, layer {layer}:"):
                ticket.wait(30)
            assert ticket.corrupt.tolist() == [wrong]
            testing.corrupt(pools.host, HOST[wrong], layer, byte)
    assert pools.engine.load(HOST, DEVICE).wait(30)
    counters = pools.engine.counters()["h2d"]
    assert counters["corrupt"] == 3 * len(layers)
    assert counters["verified"] == len(HOST) * (2 + 3 * len(layers))


@ways
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
@pytest.mark.parametrize("row", [*ROWS, 1160, 3])
def test_digests_of_the_device_are_those_of_the_host(row, arrangement, layout, way) -> None:
    fmt = format_of(row)
    with Pools(fmt, arrangement=arrangement, layout=layout, io_backend=way, verify="all") as pools:
        check(pools)


@ways
@pytest.mark.parametrize("staging", [1, 0])
def test_layers_without_buffers_and_a_launch_for_each_group(way, staging) -> None:
    options = {"io_backend": way, "staging_bytes": staging, "verify": "all"}
    with Pools(gappy_format(), **options) as pools:
        check(pools)


@pytest.mark.parametrize("kv_dtype", ["fp8_ds_mla", "bf16", "fp8"])
def test_whole_pages_of_deepseek(kv_dtype) -> None:
    fmt = hc.formats.dsa(61, kv_dtype=kv_dtype)
    with Pools(fmt, 40, 40, verify="all") as pools:
        pages = list(range(36))
        pools.memory.random_()
        assert pools.engine.save(pages, pages[::-1]).wait(60)
        for page in (0, 17, 35):
            for layer in (0, 31, 60):
                assert pools.host.digests.get(page, layer) == digest_of(pools, page, layer)
        assert pools.engine.load(pages, pages).wait(60)
        testing.corrupt(pools.host, 20, 44, 1000)
        ticket = pools.engine.load(pages, pages)
        with pytest.raises(hc.TransferError, match="host page 20, layer 44"):
            ticket.wait(60)


@ways
def test_loads_into_the_same_pages_one_behind_the_other(way) -> None:
    """Each load's digests are those of its own bytes, not of what a later one wrote there."""
    fmt = hc.formats.dsa(8)
    with Pools(fmt, 130, 130, io_backend=way, verify="all") as pools:
        pools.memory.random_()
        everything = list(range(128))
        assert pools.engine.save(everything, everything).wait(60)
        tickets = [
            pools.engine.load(everything[64:] if n % 2 else everything[:64], everything[:64])
            for n in range(40)
        ]
        for ticket in tickets:
            assert ticket.wait(60)
        assert pools.engine.counters()["h2d"]["verified"] == 40 * 64


@ways
def test_digests_follow_the_stream_that_writes_the_pages(way) -> None:
    fmt = hc.formats.dsa(8)
    with Pools(fmt, 66, 66, io_backend=way, verify="all") as pools:
        pages = list(range(64))
        stream = torch.cuda.Stream()
        for value in range(5):
            with torch.cuda.stream(stream):
                torch.cuda._sleep(20_000_000)
                pools.memory.fill_(value)
            save = pools.engine.save(pages, pages, stream=stream)
            load = pools.engine.load(pages, pages, stream=stream)
            assert save.wait(60) and load.wait(60)


def test_a_sample_finds_it_in_the_end() -> None:
    with Pools(format_of(656), verify="sample") as pools:
        saved(pools)
        testing.corrupt(pools.host, 5, 1, 7)
        failed = 0
        for _ in range(200):
            ticket = pools.engine.load(HOST, DEVICE)
            ticket.wait_end(30)
            failed += ticket.error is not None
        assert 0 < failed < 50


def test_a_wrong_page_of_a_cache_is_a_miss() -> None:
    fmt = hc.formats.dsa(4, page_size=16)
    with hc.HiCache(fmt, device="cuda", device_pages=8, host_pages=8, verify="all") as cache:
        tokens = list(range(64))
        cache.insert(tokens, cache.allocate(4))
        assert cache.drain(30)
        cache.reset()
        match = cache.match_prefix(tokens)
        testing.corrupt(cache, int(match.host_pages[2]), 3, 11)
        with cache.load_back(match) as load, pytest.raises(hc.TransferError):
            load.wait(30)
        cache.poll()
        assert cache.match_prefix(tokens).host_tokens == 32
        cache.check()
        assert cache.stats().corrupt_pages == 1
