"""Paged pools: the bytes of the cached rows, the only place where the model keeps its past.

A pool is a uint8 tensor [pages, page_bytes] per (buffer, layer), contiguous or with a stride
between pages; views of numpy memory (`torch.from_numpy`) work. `latent` has one for every layer,
`index_k` one for every layer of `config.index_layers`, in that order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from .codec import index_codec, latent_codec
from .config import DsaConfig

Pools = Mapping[str, Sequence[Tensor]]


def pool_shapes(config: DsaConfig) -> dict[str, tuple[int, int]]:
    """{buffer name: (number of pools, bytes of one page in one layer)}."""
    row_bytes = latent_codec(config).row_bytes
    return {
        "latent": (config.num_layers, config.page_size * row_bytes),
        "index_k": (len(config.index_layers), index_codec(config).page_bytes),
    }


def allocate_pools(
    config: DsaConfig, num_pages: int, device: torch.device | str = "cpu"
) -> dict[str, list[Tensor]]:
    """Zeroed pools of `num_pages` pages for every buffer and layer."""
    return {
        name: [
            torch.zeros(num_pages, page_bytes, dtype=torch.uint8, device=device)
            for _ in range(count)
        ]
        for name, (count, page_bytes) in pool_shapes(config).items()
    }


def check_pools(config: DsaConfig, pools: Pools) -> None:
    """ValueError unless the pools fit the model."""
    for name, (count, page_bytes) in pool_shapes(config).items():
        if name not in pools or len(pools[name]) != count:
            found = len(pools[name]) if name in pools else "none"
            raise ValueError(
                f"pools[{name!r}] must hold {count} tensors, one per layer that owns the buffer; "
                f"found {found}"
            )
        for layer, pool in enumerate(pools[name]):
            fits = pool.dtype == torch.uint8 and pool.ndim == 2 and pool.shape[1] == page_bytes
            if not fits or pool.stride(1) != 1:
                raise ValueError(
                    f"pools[{name!r}][{layer}] must be uint8 [pages, {page_bytes}] with packed "
                    f"pages; found {pool.dtype} {tuple(pool.shape)} strides {pool.stride()}"
                )


class LatentPool:
    """One layer's latent rows, addressed by position through the request's page table."""

    def __init__(self, config: DsaConfig, pool: Tensor, page_table: Tensor) -> None:
        self._codec = latent_codec(config)
        self._page_size = config.page_size
        self._page_table = page_table
        self._rows = pool.view(len(pool), config.page_size, self._codec.row_bytes)

    def write(self, positions: Tensor, rows: Tensor) -> None:
        """Store float32 rows [n, rank + rope] at int64 positions [n]."""
        pages = self._page_table[positions // self._page_size]
        self._rows[pages, positions % self._page_size] = self._codec.pack(rows)

    def read(self, positions: Tensor) -> Tensor:
        """float32 rows [*positions.shape, rank + rope] read back from the bytes."""
        flat = positions.reshape(-1)
        pages = self._page_table[flat // self._page_size]
        slots = flat % self._page_size
        if self._rows.is_contiguous():  # one memcpy a row
            data = self._rows.flatten(0, 1).index_select(0, pages * self._page_size + slots)
        else:
            data = self._rows[pages, slots]
        return self._codec.unpack(data).view(*positions.shape, -1)


class IndexPool:
    """One layer's index keys, addressed by position through the request's page table."""

    def __init__(self, config: DsaConfig, pool: Tensor, page_table: Tensor) -> None:
        self._codec = codec = index_codec(config)
        self._page_size = config.page_size
        self._page_table = page_table
        self._pool = pool
        keys_end = config.page_size * codec.key_bytes
        shape = (len(pool), config.page_size)
        self._keys = pool[:, :keys_end].view(*shape, codec.key_bytes)
        self._scales = pool[:, keys_end:].view(*shape, codec.scale_bytes)

    def write(self, positions: Tensor, keys: Tensor) -> None:
        """Store float32 keys [n, head_dim] at int64 positions [n]."""
        pages = self._page_table[positions // self._page_size]
        slots = positions % self._page_size
        self._keys[pages, slots], self._scales[pages, slots] = self._codec.pack(keys)

    def read_pages(self, num_pages: int) -> Tensor:
        """float32 keys [num_pages * page_size, head_dim] of the request's first pages."""
        return self._codec.unpack_pages(self._pool.index_select(0, self._page_table[:num_pages]))
