"""Kinds of streams, and F34: CUDA graphs that are being captured meanwhile."""

from __future__ import annotations

import pytest
from gpu_pools import Pools, format_of, torch

import hicache_nsa as hc

FORMAT = format_of(576)


class Foreign:
    """Looks like nothing we know."""


class Protocol:
    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle


def test_every_kind_of_stream_orders_a_save() -> None:
    stream = torch.cuda.Stream()
    kinds = [stream, stream.cuda_stream, Protocol(stream.cuda_stream), None]
    try:
        from cuda.bindings import driver, runtime

        kinds += [driver.CUstream(stream.cuda_stream), runtime.cudaStream_t(stream.cuda_stream)]
    except ImportError:
        pass
    with Pools(FORMAT) as pools:
        for turn, kind in enumerate(kinds):
            with torch.cuda.stream(stream):
                torch.cuda._sleep(20_000_000)
                pools.fill_device(1, turn)
                assert pools.engine.save([1], [2], stream=kind).wait(10)
            assert pools.host_holds(2, turn)


def test_foreign_streams_are_refused() -> None:
    with Pools(FORMAT) as pools:
        for wrong in (Foreign(), "s", 1.5, True, torch.cpu.current_stream()):
            with pytest.raises(TypeError, match="stream"):
                pools.engine.save([1], [2], stream=wrong)
        with hc.CpuStream() as stream, pytest.raises(TypeError, match="stream"):
            pools.engine.save([1], [2], stream=stream)
        with pytest.raises(ValueError):
            pools.engine.save([1], [2], stream=-1)
        assert pools.engine.counters()["d2h"]["submitted"] == 0


def test_f34_a_capture_is_not_disturbed_and_is_no_place_for_copies() -> None:
    fmt = hc.formats.dsa(2, page_size=4)
    other, capture = torch.cuda.Stream(), torch.cuda.Stream()
    x = torch.zeros(1000, device="cuda")
    with hc.HiCache(fmt, device="cuda", device_pages=16, host_pages=16) as cache:
        pages = cache.allocate(2)
        for tensors in cache.device_pool.buffers.values():
            for tensor in tensors:
                tensor.fill_(7)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(capture):
            graph.capture_begin()  # mode: global
            x.add_(1)
            cache.insert(range(8), pages, stream=other)
            assert cache.drain(10)
            assert cache.match_prefix(range(8), count=False).device_tokens == 8
            assert cache.evict_device(8) == 8
            load = cache.load_back(cache.match_prefix(range(8)))
            load.wait_layer(0, other)
            with pytest.raises(hc.HiCacheError, match="captured"):
                load.wait_layer(1)  # torch's current stream
            with pytest.raises(hc.HiCacheError, match="captured"):
                cache.engine.save([3], [9], stream=capture)
            assert load.wait(10)
            load.release(other)
            cache.poll()
            more = cache.allocate(1)
            with pytest.raises(hc.HiCacheError, match="captured"):
                cache.free(more)
            cache.free(more, stream=other)
            x.add_(1)
            graph.capture_end()
        for _ in range(3):
            graph.replay()
        torch.cuda.synchronize()
        assert (x == 6).all()
        hit = cache.match_prefix(range(8))
        assert hit.device_tokens == 8
        for page in hit.device_pages.tolist():
            for tensors in cache.device_pool.buffers.values():
                assert all((tensor[page] == 7).all() for tensor in tensors)
        cache.check()
