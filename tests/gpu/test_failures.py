"""Reported failures that show on a GPU and stand nowhere else: F01, F05, F08, F51, F52.

What they are: tests/cases/README.md.
"""

from __future__ import annotations

import numpy as np
import pytest
from gpu_pools import GUARD, LAYOUTS, WAYS, Pools, content, torch
from heartbeat import heartbeat

import hicache_nsa as hc
from hicache_nsa import testing

ways = pytest.mark.parametrize("way", WAYS)
layouts = pytest.mark.parametrize("layout", LAYOUTS)


@layouts
@pytest.mark.parametrize("way", ["auto", *WAYS])
@pytest.mark.parametrize("index_layers", [(0, 1, 2), (1,)])
def test_f01_latent_and_indexer_come_back_bit_for_bit(layout, way, index_layers) -> None:
    fmt = hc.formats.dsa(3, kv_dtype="fp8", page_size=64, index_layers=index_layers)
    with Pools(fmt, 4, 4, layout=layout, io_backend=way) as pools:
        assert pools.host.nbytes == 442_368 + 4 * 8448 * len(index_layers)
        for page in range(4):
            pools.fill_device(page, page)
        assert pools.engine.save([3, 1], [2, 0]).wait(30)
        pools.memory.fill_(GUARD)
        assert pools.engine.load([2, 0], [0, 2]).wait(30)
        assert pools.device_holds(0, 3) and pools.device_holds(2, 1)
        assert pools.is_guard(1, "device") and pools.is_guard(3, "device")
        assert pools.is_guard(1, "host") and pools.is_guard(3, "host")


@ways
@pytest.mark.parametrize("after", [0, 1])
def test_f05_a_failed_copy_is_a_miss_and_says_why(way, after) -> None:
    """D=16, H=16, P=4: a load of A(8) fails, then a save of B(8); then both go well."""
    fmt = hc.formats.dsa(3, page_size=4)
    a, b = list(range(8)), list(range(50, 58))
    with hc.HiCache(fmt, device="cuda", device_pages=4, host_pages=4, io_backend=way) as cache:
        write(cache, a)
        cache.reset()
        testing.fail_next(cache, "h2d", after)
        load = cache.load_back(cache.match_prefix(a))
        assert load is not None
        with pytest.raises(hc.TransferError, match=f"injected failure after {after} pages"):
            load.wait(30)
        assert load.error is not None and cache.poll() == 1
        load.release()
        assert found(cache, a) == (0, 8) and cache.stats().failed_loads == 1
        load_back(cache, a)
        assert found(cache, a) == (8, 0) and holds(cache, a)
        testing.fail_next(cache, "d2h", after)
        write(cache, b)
        assert cache.stats().failed_saves == 1 and found(cache, b) == (8, 0)
        cache.insert(b, cache.match_prefix(b).device_pages)  # the next insert saves it
        assert cache.drain(30)
        cache.reset()
        assert found(cache, b) == (0, 8)
        load_back(cache, b)
        assert holds(cache, b)
        cache.check()


def write(cache: hc.HiCache, tokens: list[int]) -> None:
    """Compute and insert: each page holds the first token it stands for."""
    pages = cache.allocate(len(tokens) // 4)
    for page, token in zip(pages.tolist(), tokens[::4], strict=True):
        for tensors in cache.device_pool.buffers.values():
            for tensor in tensors:
                tensor[page] = token + 1
    cache.insert(tokens, pages)
    assert cache.drain(30)


def load_back(cache: hc.HiCache, tokens: list[int]) -> None:
    load = cache.load_back(cache.match_prefix(tokens))
    assert load is not None and load.wait(30)
    load.release()
    assert cache.drain(30)


def found(cache: hc.HiCache, tokens: list[int]) -> tuple[int, int]:
    match = cache.match_prefix(tokens)
    return match.device_tokens, match.host_tokens


def holds(cache: hc.HiCache, tokens: list[int]) -> bool:
    pages = cache.match_prefix(tokens).device_pages.tolist()
    return len(pages) == len(tokens) // 4 and all(
        bool((tensor[page] == token + 1).all())
        for page, token in zip(pages, tokens[::4], strict=True)
        for tensors in cache.device_pool.buffers.values()
        for tensor in tensors
    )


# -- F08: tensors as engines have them -------------------------------------------------------------

P, PAGES, LAYERS, ROW = 64, 6, 2, 656
VIEWS = {
    "pages": lambda m: m.view(LAYERS, PAGES, P * ROW).unbind(0),
    "token rows": lambda m: m.view(LAYERS, PAGES * P, ROW).unbind(0),
    "token rows with a head": lambda m: m.view(LAYERS, PAGES * P, 1, ROW).unbind(0),
    "pages of rows": lambda m: m.view(LAYERS, PAGES, P, ROW).unbind(0),
    "packed by page": lambda m: m.view(PAGES, LAYERS, P * ROW).unbind(1),
    "packed by token": lambda m: m.view(PAGES * P, LAYERS, ROW).unbind(1),
    "packed in a page": lambda m: m.view(PAGES, P, LAYERS, ROW).unbind(2),
    "rows outside": lambda m: [t.transpose(0, 1) for t in m.view(LAYERS, P, PAGES, ROW).unbind(0)],
    "float8": lambda m: m.view(torch.float8_e4m3fn).view(LAYERS, PAGES, P, ROW).unbind(0),
    "bfloat16": lambda m: m.view(torch.bfloat16).view(LAYERS, PAGES, P, ROW // 2).unbind(0),
    "int8": lambda m: m.view(torch.int8).view(LAYERS, PAGES * P, ROW).unbind(0),
}
TYPES = ("float8_e4m3fn", "bfloat16")


def rows_format(dtypes: tuple[str, ...] = TYPES) -> hc.PoolFormat:
    latent = hc.BufferFormat("latent", P * ROW, tuple(range(LAYERS)), dtypes)
    return hc.PoolFormat("rows", P, LAYERS, (latent,))


@ways
@pytest.mark.parametrize("view", VIEWS)
def test_f08_views_are_copied_bit_for_bit_and_nothing_else_is_touched(view, way) -> None:
    guard, size = 5120, LAYERS * PAGES * P * ROW
    memory = torch.full((size + 2 * guard,), GUARD, dtype=torch.uint8, device="cuda")
    tensors = list(VIEWS[view](memory[guard:-guard]))
    host = hc.HostPool(rows_format(), pages=PAGES)
    engine = hc.TransferEngine(
        hc.DevicePool(rows_format(), {"latent": tensors}, device="cuda"), host, io_backend=way
    )
    memory[guard:-guard] = torch.from_numpy(content(8, view, 0, size))
    before = memory.clone()
    pages = [page_bytes(tensor) for tensor in tensors]
    assert engine.save([3, 1], [0, 5]).wait(30)
    assert torch.equal(memory, before)
    for layer, wanted in enumerate(pages):
        for host_page, page in ((0, 3), (5, 1)):
            assert np.array_equal(host.page_view("latent", layer, host_page), wanted[page])
    memory[guard:-guard] = GUARD
    assert engine.load([0, 5], [4, 2]).wait(30)
    for tensor, wanted in zip(tensors, pages, strict=True):
        got = page_bytes(tensor)
        assert np.array_equal(got[4], wanted[3]) and np.array_equal(got[2], wanted[1])
        assert all((got[page] == GUARD).all() for page in (0, 1, 3, 5))
    assert (memory[:guard] == GUARD).all() and (memory[-guard:] == GUARD).all()
    engine.close()


def page_bytes(tensor) -> np.ndarray:
    """uint8 [pages, bytes of a page]."""
    return tensor.contiguous().view(torch.uint8).cpu().numpy().reshape(PAGES, P * ROW)


REFUSED = {
    "on the CPU": lambda: torch.zeros((PAGES, P * ROW), dtype=torch.uint8),
    "pinned, on the CPU": lambda: torch.zeros((PAGES, P * ROW), dtype=torch.uint8).pin_memory(),
    "numpy": lambda: np.zeros((PAGES, P * ROW), np.uint8),
    "another type": lambda: plain((PAGES, P, ROW // 4), torch.float32),
    "row too short": lambda: plain((PAGES * P, ROW - 1)),
    "another page count": lambda: plain((PAGES + 1, P * ROW)),
    "every page the same": lambda: plain((1, P * ROW)).expand(PAGES, P * ROW),
    "pages overlap": lambda: plain((PAGES, P * ROW)).as_strided((PAGES, P * ROW), (ROW, 1)),
    "bytes with holes": lambda: plain((PAGES, P, 82, 3, 16))[:, :, :, 0, ::2],
}


def plain(shape: tuple[int, ...], dtype=torch.uint8):
    return torch.zeros(shape, dtype=dtype, device="cuda")


@pytest.mark.parametrize("make", REFUSED.values(), ids=REFUSED)
def test_f08_what_does_not_fit_is_refused_by_name(make) -> None:
    tensors = {"latent": [plain((PAGES, P * ROW)), make()]}
    with pytest.raises(ValueError, match=r"latent.*layer 1"):
        hc.HiCache(rows_format(), device="cuda", device_buffers=tensors, host_size="1000GiB")


def test_f08_a_tensor_of_another_gpu_is_refused() -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    good = torch.zeros((PAGES, P * ROW), dtype=torch.uint8, device="cuda:0")
    with pytest.raises(ValueError, match=r"layer 1.*cuda:1.*cuda:0"):
        hc.DevicePool(rows_format(), {"latent": [good, good.to("cuda:1")]}, device="cuda:0")


# -- F51, F52: other threads, and long submissions -------------------------------------------------


def test_f51_pinning_and_closing_do_not_stop_other_threads() -> None:
    """2 GiB: mapped and pinned, then waited for, then given back."""
    fmt = hc.formats.dsa(4)
    device = hc.DevicePool(fmt, pages=4, device="cuda")
    with heartbeat(0.25) as gaps:
        host = hc.HostPool(fmt, size="2GiB")
        engine = hc.TransferEngine(device, host, pin_memory=True)
        with testing.hold(engine, "h2d"):
            ticket = engine.load([host.num_pages - 1], [3])
            assert not ticket.wait_end(0.1)
        assert ticket.wait(30)
        engine.close()
        host.close()
    assert len(gaps) > 10


@ways
def test_f52_contiguous_tokens_are_one_run_and_submitting_does_not_wait(way) -> None:
    """P=1, layer_first, 4096 neighbouring tokens, 61 layers."""
    fmt = hc.formats.dsa(61, page_size=1)
    with Pools(fmt, 4096, 4096, layout="layer_first", io_backend=way) as pools:
        pages = np.arange(4096)
        some = [0, 1000, 4095]
        for page in some:
            pools.fill_device(page, page)
        torch.cuda.synchronize()
        with testing.hold(pools.engine, "d2h"):
            ticket = pools.engine.save(pages, pages)
            assert not ticket.done()
        assert ticket.wait(30) and ticket.error is None
        assert all(pools.host_holds(page, page) for page in some)
        assert pools.engine.counters()["d2h"]["runs"] == 1  # shared by its 61 layers
        pools.memory.fill_(GUARD)
        assert pools.engine.load(pages, pages).wait(30)
        assert all(pools.device_holds(page, page) for page in some)
