"""Which key's bytes each device page must hold; compares every byte of a pool with that."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from kv_pools import POISON, all_buffers, page_bytes


class Mirror:
    """Pages of ``pools`` ({prefix of the names: pool}), by page id the key that lies there."""

    def __init__(self, **pools: Any) -> None:
        self.buffers = {
            f"{prefix}{name}": tensors
            for prefix, pool in pools.items()
            for name, tensors in all_buffers(pool).items()
        }
        self.pages = min(t[0].shape[0] for t in self.buffers.values() if t[0].shape[0])
        self.keys: dict[int, str] = {}
        self.poison()

    def poison(self, pages: Iterable[int] | None = None) -> None:
        """Overwrite pages (all of them) with a byte that no key's page consists of."""
        chosen = list(range(self.pages) if pages is None else pages)
        for tensors in self.buffers.values():
            for tensor in tensors:
                if tensor.shape[0]:
                    tensor[chosen] = POISON
        for page in chosen:
            self.keys.pop(page, None)

    def write(self, page: int, key: str) -> None:
        """What a forward pass does: all layers and buffers of one page."""
        for name, tensors in self.buffers.items():
            for layer, tensor in enumerate(tensors):
                if tensor.shape[0]:
                    tensor[page] = page_bytes(key, name, layer, tensor.shape[1]).to(tensor.device)
        self.keys[page] = key

    def expect(self, page: int, key: str) -> None:
        """A load is to bring ``key`` into ``page``."""
        self.keys[page] = key

    def wrong_bytes(self, pages: Iterable[int], layers: Iterable[int] | None = None) -> list[str]:
        """Where pages hold anything else than they should: ``name layer page: n bytes``."""
        found = []
        chosen = list(pages)
        wanted = None if layers is None else set(layers)
        for name, tensors in self.buffers.items():
            for layer, tensor in enumerate(tensors):
                if not tensor.shape[0] or (wanted is not None and layer not in wanted):
                    continue
                have = tensor[chosen].cpu()
                for row, page in enumerate(chosen):
                    key = self.keys.get(page)
                    size = tensor.shape[1]
                    want = (
                        torch.full((size,), POISON, dtype=torch.uint8)
                        if key is None
                        else page_bytes(key, name, layer, size)
                    )
                    differing = int((have[row] != want).sum())
                    if differing:
                        found.append(f"{name} layer {layer} page {page}: {differing} of {size}")
        return found

    def check(self) -> None:
        """Every byte of every page."""
        assert self.wrong_bytes(range(self.pages)) == []
