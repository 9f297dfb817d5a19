"""The device pages: torch tensors that hold pages of tokens, filled from cache layers and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from transformers.cache_utils import DynamicLayer

from hicache_nsa.errors import HiCacheError
from hicache_nsa.formats import PoolFormat
from hicache_nsa.integrations.transformers.kept import Kept
from hicache_nsa.sizes import format_size
from hicache_nsa.tokens import PageIds


class PagedTensors:
    """Zeroed device memory for ``pages`` pages.

    buffers: {name: one tensor per owning layer}, each [pages, page_size, *rows] of the kind's own
    dtype: what ``HiCache(device_buffers=)`` takes.

    Raises:
        HiCacheError: no memory for them.
    """

    def __init__(
        self, kept: Mapping[str, Kept], format: PoolFormat, pages: int, device: torch.device
    ) -> None:
        self.kept = kept
        self.device = device
        self._page_size = format.page_size
        try:
            with torch.inference_mode(False):
                self.buffers = {
                    kind.name: list(
                        torch.zeros(
                            (len(kind.layers), pages, format.page_size, *kind.rows),
                            dtype=kind.dtype,
                            device=device,
                        ).unbind(0)
                    )
                    for kind in kept.values()
                }
        except (MemoryError, RuntimeError) as error:
            raise HiCacheError(
                f"no memory for {pages} device pages ({format_size(pages * format.page_bytes)}) "
                f"on {device}: {error}; ask for fewer with device_pages or device_size"
            ) from error

    def fill(self, ids: PageIds, layers: Sequence[DynamicLayer], first_page: int) -> None:
        """Copy whole pages of the sequence in ``layers``, from ``first_page`` on, into ``ids``."""
        index = torch.from_numpy(ids).to(self.device)
        start = first_page * self._page_size
        end = start + len(ids) * self._page_size
        for kind in self.kept.values():
            for layer, buffer in zip(kind.layers, self.buffers[kind.name], strict=True):
                rows = getattr(layers[layer], kind.name)[0, ..., start:end, :].movedim(-2, 0)
                buffer.index_copy_(0, index, rows.reshape(len(ids), *buffer.shape[1:]))

    def read(self, name: str, layer: int, index: torch.Tensor, skip: int) -> torch.Tensor:
        """The tokens in pages ``index`` but the first ``skip``, as a cache layer has them:
        [1, ..., tokens, width], a copy.
        """
        buffer = self.buffers[name][self.kept[name].layers.index(layer)]
        rows = buffer.index_select(0, index).flatten(0, 1)[skip:]
        return rows.movedim(0, -2).unsqueeze(0).contiguous()

    def append(self, ids: PageIds, layers: Sequence[DynamicLayer], skip: int) -> None:
        """Append the tokens in pages ``ids`` but the first ``skip`` to what ``layers`` hold."""
        index = torch.from_numpy(ids).to(self.device)
        for layer in self.kept["keys"].layers:
            keys, values = (self.read(name, layer, index, skip) for name in ("keys", "values"))
            layers[layer].update(keys, values)
            if "indexer_keys" in self.kept and layer in self.kept["indexer_keys"].layers:
                layers[layer].update_indexer(self.read("indexer_keys", layer, index, skip))
