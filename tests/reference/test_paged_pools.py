"""Paged pools: what is written through a page table is read back, in any kind of memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from hicache_nsa.reference import allocate_pools, pool_shapes
from hicache_nsa.reference.pools import IndexPool, LatentPool, check_pools


def strided(pool: torch.Tensor) -> torch.Tensor:
    """The same shape with a gap after every page."""
    return torch.zeros(len(pool), pool.shape[1] + 64, dtype=torch.uint8)[:, : pool.shape[1]]


def numpy_backed(pool: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.zeros(tuple(pool.shape), dtype=np.uint8))


@pytest.mark.parametrize("memory", [torch.clone, strided, numpy_backed])
@pytest.mark.parametrize("kv_dtype", ["bf16", "fp8_ds_mla", "fp8", "fp32"])
def test_rows_are_read_back_through_the_page_table(
    make_model: Callable[..., Any], kv_dtype: str, memory: Callable[..., torch.Tensor]
) -> None:
    config = make_model(kv_dtype=kv_dtype).config
    pools = {k: [memory(x) for x in v] for k, v in allocate_pools(config, 5).items()}
    table = torch.tensor([4, 1, 3])
    positions = torch.arange(30, 150)
    latent = LatentPool(config, pools["latent"][0], table)
    rows = torch.randn(120, 576)
    latent.write(positions, rows)
    read = latent.read(positions.view(10, 12))
    assert read.shape == (10, 12, 576)
    assert torch.allclose(read.view(120, 576), rows, rtol=2**-4, atol=1e-2)
    for page in (0, 2):
        assert not pools["latent"][0][page].any(), "a page outside the table was written"

    index = IndexPool(config, pools["index_k"][0], table)
    keys = torch.randn(120, 128)
    index.write(positions, keys)
    cached = index.read_pages(3)
    assert cached.shape == (192, 128)
    assert torch.allclose(cached[30:150], keys, rtol=2**-4, atol=1e-2)
    assert not cached[:30].any()
    assert not cached[150:].any()


def test_pool_sizes_are_those_of_deepseek_v32(make_model: Callable[..., Any]) -> None:
    assert pool_shapes(make_model().config) == {"latent": (3, 41984), "index_k": (3, 8448)}
    shared = make_model(index_layers=(0, 2)).config
    assert pool_shapes(shared)["index_k"] == (2, 8448)


def test_pools_that_do_not_fit_are_refused_with_the_numbers(
    make_model: Callable[..., Any],
) -> None:
    config = make_model().config
    pools = allocate_pools(config, 4)
    with pytest.raises(ValueError, match=r"must hold 3 tensors.*found 2"):
        check_pools(config, {**pools, "latent": pools["latent"][:2]})
    with pytest.raises(ValueError, match="found none"):
        check_pools(config, {"latent": pools["latent"]})
    narrow = [pool[:, :100] for pool in pools["index_k"]]
    with pytest.raises(ValueError, match=r"\[pages, 8448\].*\(4, 100\)"):
        check_pools(config, {**pools, "index_k": narrow})
