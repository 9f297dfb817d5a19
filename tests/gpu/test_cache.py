"""HiCache on GPU memory: the random driver of tests/cache, and flushes with real streams."""

from __future__ import annotations

import engine as random_engine
import numpy as np
import pytest
from gpu_pools import LAYOUTS, WAYS, torch

import hicache_nsa as hc

STEPS = 100


def device_views(cache: hc.HiCache, page: int):
    for buffer in cache.format.buffers:
        tensors = cache.device_pool.buffers[buffer.name]
        for layer, tensor in zip(buffer.layers, tensors, strict=True):
            yield buffer.name, layer, tensor[page]


def fill(cache: hc.HiCache, page: int, ident: int, poison: bool = False) -> None:
    for name, layer, view in device_views(cache, page):
        data = random_engine.pattern(name, layer, ident, view.numel()) ^ (0xFF if poison else 0)
        view.copy_(torch.from_numpy(data))


def device_holds(cache: hc.HiCache, page: int, ident: int) -> bool:
    return all(
        np.array_equal(view.cpu().numpy(), random_engine.pattern(name, layer, ident, view.numel()))
        for name, layer, view in device_views(cache, page)
    )


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("way", ["auto", *WAYS])
@pytest.mark.parametrize(("device_pages", "host_pages"), [(24, 40), (12, 0), (40, 12)])
def test_random_work(monkeypatch, layout, way, device_pages, host_pages) -> None:
    monkeypatch.setattr(random_engine, "fill", fill)
    monkeypatch.setattr(random_engine, "device_holds", device_holds)
    engine = random_engine.Engine(
        device_pages + len(way), device="cuda", device_pages=device_pages, host_pages=host_pages,
        layout=layout, io_backend=way,
    )  # fmt: skip
    for _ in range(STEPS):
        engine.step()
    engine.end()


def test_an_engine_with_a_stream_of_its_own() -> None:
    """Compute, insert, reset, load back and read, 40 times, and never a host wait on the stream."""
    fmt = hc.formats.dsa(4, page_size=16)
    stream = torch.cuda.Stream()
    options = {"device_pages": 32, "host_pages": 64, "stream": stream}
    with hc.HiCache(fmt, device="cuda", **options) as cache:
        buffers = cache.device_pool.buffers
        for turn in range(40):
            tokens = np.arange(128) + turn
            pages = cache.allocate(8)
            index = torch.from_numpy(pages).cuda()
            torch.cuda.synchronize()
            with torch.cuda.stream(stream):
                torch.cuda._sleep(2_000_000)
                for tensors in buffers.values():
                    for tensor in tensors:
                        tensor[index] = turn
            cache.insert(tokens, pages)
            cache.reset()
            load = cache.load_back(cache.match_prefix(tokens))
            assert load is not None and load.tokens == 128
            index = torch.from_numpy(load.pages).cuda()
            seen = []
            with torch.cuda.stream(stream):
                for layer in range(fmt.num_layers):
                    load.wait_layer(layer)
                    seen += [tensors[layer][index].clone() for tensors in buffers.values()]
            stream.synchronize()
            assert all((data == turn).all() for data in seen)
            assert load.wait(10)
            load.release()
            cache.check()


def test_tensors_of_other_libraries_and_wrong_ones() -> None:
    fmt = hc.formats.mla(2, kv_dtype="fp8", page_size=4)
    size = fmt.buffers[0].page_bytes
    cupy = pytest.importorskip("cupy")
    arrays = [cupy.zeros((4, size), dtype=cupy.uint8) for _ in range(2)]
    pool = hc.DevicePool(fmt, {"latent": arrays}, device="cuda")
    host = hc.HostPool(fmt, pages=4)
    host.view()[:] = 9
    cupy.cuda.Device().synchronize()
    engine = hc.TransferEngine(pool, host)
    assert engine.load([1], [2]).wait(10)
    engine.close()
    assert int(arrays[1][2].min()) == int(arrays[1][2].max()) == 9 and int(arrays[1][3].max()) == 0
    with pytest.raises(ValueError, match="cpu"):
        hc.DevicePool(fmt, {"latent": [np.zeros((4, size), np.uint8)] * 2}, device="cuda")
    tensor = torch.zeros((4, size), dtype=torch.uint8, device="cuda")
    with pytest.raises(ValueError, match="share memory"):
        hc.DevicePool(fmt, {"latent": [tensor, tensor]}, device="cuda")


def test_a_device_that_is_not_there() -> None:
    with pytest.raises(hc.HiCacheError, match="cuda:99"):
        hc.HiCache(hc.formats.dsa(2), device="cuda:99", device_pages=4, host_pages=4)


def test_f29_twenty_pools_in_a_row_leave_no_error_behind() -> None:
    """Pinned, given back, pinned again; the engine's own CUDA calls go on working."""
    fmt = hc.formats.dsa(2, page_size=4)
    for turn in range(20):
        host = hc.HostPool(fmt, pages=16)
        device = hc.DevicePool(fmt, pages=4, device="cuda")
        first = hc.TransferEngine(device, host, pin_chunk_bytes=8192 * (1 + turn % 3))
        second = hc.TransferEngine(device, host)  # the same memory, pinned already
        assert first.save([1], [2]).wait(10)
        second.close()
        assert first.save([1], [2]).wait(10)
        first.close()
        torch.ones(10, device="cuda").sum().item()
        torch.cuda.synchronize()
