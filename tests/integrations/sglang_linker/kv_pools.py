"""KV pools shaped as SGLang's, for tests without it, on the CPU or a GPU; and what a page holds.

The classes have SGLang's names, as pools are told by them.
"""

from __future__ import annotations

import hashlib
from typing import Any

import torch

PAGE = 64
INDEX_BYTES = 8448  # keys and scales of 64 tokens
POISON = 0xEE
DEVICE_PAGES = 24  # of the pools in most tests, and as many on the host
HOST_PAGES = 24


class DSATokenToKVPool:
    def __init__(
        self,
        pages: int,
        layers: int = 3,
        *,
        row: int = 656,
        sharing: tuple[int, ...] = (),
        device: str = "cpu",
    ) -> None:
        self.page_size = PAGE
        self.size = pages * PAGE
        shape = ((pages + 1) * PAGE, 1, row)
        self.kv_buffer = [
            torch.zeros(shape, dtype=torch.uint8, device=device) for _ in range(layers)
        ]
        self.index_k_with_scale_buffer = [
            torch.zeros(
                (0 if layer in sharing else pages + 1, INDEX_BYTES),
                dtype=torch.uint8,
                device=device,
            )
            for layer in range(layers)
        ]


class MLATokenToKVPool:
    def __init__(
        self, pages: int, layers: int = 3, *, page_size: int = PAGE, device: str = "cpu"
    ) -> None:
        self.page_size = page_size
        self.size = pages * page_size
        shape = ((pages + 1) * page_size, 1, 576)
        self.kv_buffer = [
            torch.zeros(shape, dtype=torch.bfloat16, device=device) for _ in range(layers)
        ]


class MHATokenToKVPool:
    def __init__(
        self, pages: int, layers: int = 3, *, page_size: int = PAGE, device: str = "cpu"
    ) -> None:
        self.page_size = page_size
        self.size = pages * page_size
        self.kv_cache_layout = "nhd"
        shape = ((pages + 1) * page_size, 2, 64)
        self.k_buffer = [
            torch.zeros(shape, dtype=torch.float16, device=device) for _ in range(layers)
        ]
        self.v_buffer = [
            torch.zeros(shape, dtype=torch.float16, device=device) for _ in range(layers)
        ]


def all_buffers(pool: Any) -> dict[str, list[torch.Tensor]]:
    """{name: a uint8 view [pages, bytes of a page] a layer, with 0 rows where a layer has none}."""
    names = {
        "latent": getattr(pool, "kv_buffer", None),
        "index_k": getattr(pool, "index_k_with_scale_buffer", None),
        "k": getattr(pool, "k_buffer", None),
        "v": getattr(pool, "v_buffer", None),
    }
    pages = pool.size // pool.page_size + 1
    return {
        name: [_page_rows(tensor, pages) for tensor in tensors]
        for name, tensors in names.items()
        if tensors is not None
    }


def _page_rows(tensor: torch.Tensor, pages: int) -> torch.Tensor:
    if not tensor.shape[0]:
        return tensor
    return tensor.view(torch.uint8).reshape(pages, -1)


def page_bytes(key: str, name: str, layer: int, size: int) -> torch.Tensor:
    """What a forward pass writes into the page of ``key``: bytes that nothing else has."""
    seed = f"{key}|{name}|{layer}".encode()
    return torch.frombuffer(bytearray(hashlib.shake_128(seed).digest(size)), dtype=torch.uint8)
