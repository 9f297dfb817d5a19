"""verify over formats and layouts: a byte of any buffer and layer that went wrong is a miss."""

from __future__ import annotations

import numpy as np
import pytest
from small_cache import LONG

import hicache_nsa as hc

FORMATS = [
    hc.formats.dsa(3, page_size=4, index_layers=(0, 2)),
    hc.formats.dsa(3, page_size=4, kv_dtype="bf16").extended(hc.BufferFormat("draft", 37, (1, 2))),
    hc.formats.mha(2, 2, 16, dtype="bf16", page_size=4),
    hc.PoolFormat("odd", 1, 2, (hc.BufferFormat("rows", 3, (1,)), hc.BufferFormat("k", 1, (0, 1)))),
]


@pytest.mark.parametrize("layout", ["layer_first", "page_first", "page_first_direct"])
@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
def test_a_flipped_byte_of_any_buffer_and_layer_is_a_miss(fmt: hc.PoolFormat, layout: str) -> None:
    size = fmt.page_size
    with hc.HiCache(fmt, device_pages=4, host_pages=4, layout=layout, verify="all") as cache:
        rng = np.random.default_rng(1)
        tokens = list(range(3 * size))
        spoiled = 0
        for buffer in fmt.buffers:
            for layer in buffer.layers:
                for byte in {0, buffer.page_bytes // 2, buffer.page_bytes - 1}:
                    pages = cache.allocate(3)
                    for arrays in cache.device_pool.buffers.values():
                        for array in arrays:
                            shape = array[pages].shape
                            array[pages] = rng.integers(0, 256, shape, dtype=np.uint8)
                    cache.insert(tokens, pages)
                    assert cache.drain(LONG)
                    cache.reset()
                    match = cache.match_prefix(tokens)
                    page = int(match.host_pages[1])
                    cache.host_pool.page_view(buffer.name, layer, page)[byte] ^= 1
                    load = cache.load_back(match)
                    assert load is not None
                    assert load._loads[0].ticket.wait_end(LONG)
                    error = load.error
                    assert error is not None and f"host page {page}, layer {layer}:" in error
                    assert cache.poll() == 1
                    load.release()
                    cache.check()
                    spoiled += 1
                    after = cache.match_prefix(tokens)
                    assert (after.device_tokens, after.host_tokens) == (0, size)
                    stats = cache.stats()
                    assert stats.corrupt_pages == stats.failed_loads == spoiled
                    assert stats.verified_pages == 3 * spoiled
                    assert stats.host.free_pages == 3
                    cache.clear()
