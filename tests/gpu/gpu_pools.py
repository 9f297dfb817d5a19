"""A device pool in GPU memory in several arrangements, a host pool, and what both must hold."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

import hicache_nsa as hc

torch = pytest.importorskip("torch")

GUARD = 0xA7
LAYOUTS = ("layer_first", "page_first", "page_first_direct")
WAYS = ("direct", "kernel", "staged")
ROWS = (132, 512, 576, 656, 1152)
ARRANGEMENTS = ("layers", "padded", "packed", "rows_first")


def format_of(row: int, rows: int = 4, layers: int = 3, index: int = 36) -> hc.PoolFormat:
    """``latent`` in every layer, ``index_k`` in every second one."""
    return hc.PoolFormat(
        f"test/{row}",
        rows,
        layers,
        (
            hc.BufferFormat("latent", rows * row, tuple(range(layers))),
            hc.BufferFormat("index_k", rows * index, tuple(range(0, layers, 2))),
        ),
    )


def gappy_format(row: int = 656, rows: int = 4, index: int = 36) -> hc.PoolFormat:
    """12 layers: 0 with ``index_k`` alone, 4 and 11 without any buffer, the others as they come."""
    return hc.PoolFormat(
        f"test/gaps/{row}",
        rows,
        12,
        (
            hc.BufferFormat("latent", rows * row, (1, 2, 3, 5, 6, 7, 8, 9, 10)),
            hc.BufferFormat("index_k", rows * index, (0, 2, 6, 8)),
        ),
    )


def arrange(fmt: hc.PoolFormat, pages: int, arrangement: str) -> tuple[Any, dict[str, list[Any]]]:
    """(all device bytes, {buffer: tensors}), with guard bytes in front, behind and between.

    layers: one tensor [pages, bytes] a layer. padded: token rows wider than they are.
    packed: [page][layer][buffer], a record is contiguous. rows_first: [row][page] with padding.
    """
    rows = fmt.page_size
    pieces = [(b, layer) for b in fmt.buffers for layer in b.layers]
    front = 64
    if arrangement == "packed":
        memory = torch.full((front + (pages + 1) * fmt.page_bytes,), GUARD, dtype=torch.uint8)
        memory = memory.cuda()
        records = memory[front : front + pages * fmt.page_bytes].view(pages, fmt.page_bytes)
        buffers: dict[str, list[Any]] = {b.name: [] for b in fmt.buffers}
        start = 0
        for layer in range(fmt.num_layers):
            for b in fmt.buffers:
                if layer in b.layers:
                    buffers[b.name].append(records[:, start : start + b.page_bytes])
                    start += b.page_bytes
        return memory, buffers
    pad = {"layers": 0, "padded": 12, "rows_first": 4}[arrangement]
    sizes = [pages * rows * (b.page_bytes // rows + pad) for b, _ in pieces]
    memory = torch.full((front + sum(sizes) + 64,), GUARD, dtype=torch.uint8).cuda()
    buffers = {b.name: [] for b in fmt.buffers}
    start = front
    for (b, _), size in zip(pieces, sizes, strict=True):
        width = b.page_bytes // rows
        piece = memory[start : start + size]
        if arrangement == "rows_first":
            tensor = piece.view(rows, pages, width + pad)[:, :, :width].permute(1, 0, 2)
        elif pad:
            tensor = piece.view(pages * rows, width + pad)[:, :width]
        else:
            tensor = piece.view(pages, b.page_bytes)
        buffers[b.name].append(tensor)
        start += size
    return memory, buffers


class Pools:
    """An engine between ``device_pages`` in GPU memory and ``host_pages``.

    host: a pool made before, whose bytes are left as they are.
    """

    def __init__(
        self,
        fmt: hc.PoolFormat,
        device_pages: int = 9,
        host_pages: int = 11,
        arrangement: str = "layers",
        layout: str = "page_first",
        host: hc.HostPool | None = None,
        **options: Any,
    ) -> None:
        self.format = fmt
        self.memory, self.buffers = arrange(fmt, device_pages, arrangement)
        self.device = hc.DevicePool(fmt, self.buffers, device=str(self.memory.device))
        if host is None:
            host = hc.HostPool(fmt, pages=host_pages, layout=layout)
            host.view()[:] = GUARD
        self.host = host
        self.engine = hc.TransferEngine(self.device, self.host, **options)

    def __enter__(self) -> Pools:
        return self

    def __exit__(self, *exc: object) -> None:
        self.engine.check()
        self.engine.close()
        self.host.check()

    def tensor_page(self, buffer: str, position: int, page: int) -> Any:
        tensor, rows = self.buffers[buffer][position], self.format.page_size
        if tensor.shape[0] == self.device.num_pages:
            return tensor[page]
        return tensor[page * rows : (page + 1) * rows]

    def device_page(self, page: int) -> dict[tuple[str, int], np.ndarray]:
        return {
            (b.name, layer): self.tensor_page(b.name, i, page).cpu().numpy().reshape(-1)
            for b in self.format.buffers
            for i, layer in enumerate(b.layers)
        }

    def host_page(self, page: int) -> dict[tuple[str, int], np.ndarray]:
        return {
            (b.name, layer): self.host.page_view(b.name, layer, page).copy()
            for b in self.format.buffers
            for layer in b.layers
        }

    def fill_device(self, page: int, seed: int) -> None:
        for b in self.format.buffers:
            for i, layer in enumerate(b.layers):
                target = self.tensor_page(b.name, i, page)
                data = torch.from_numpy(content(seed, b.name, layer, b.page_bytes))
                target.copy_(data.view(target.shape))

    def fill_host(self, page: int, seed: int) -> None:
        for b in self.format.buffers:
            for layer in b.layers:
                view = self.host.page_view(b.name, layer, page)
                view[:] = content(seed, b.name, layer, b.page_bytes)

    def device_holds(self, page: int, seed: int, layers: Iterable[int] | None = None) -> bool:
        return holds(self.device_page(page), seed, layers)

    def host_holds(self, page: int, seed: int, layers: Iterable[int] | None = None) -> bool:
        return holds(self.host_page(page), seed, layers)

    def is_guard(self, page: int, tier: str) -> bool:
        views = self.device_page(page) if tier == "device" else self.host_page(page)
        return all((view == GUARD).all() for view in views.values())

    def outside_is_guard(self) -> bool:
        """Whether the device bytes that belong to no page are what they were."""
        got = self.memory.clone()
        for tensors in self.buffers.values():
            for tensor in tensors:
                view = torch.as_strided(got, tensor.shape, tensor.stride(), tensor.storage_offset())
                view.fill_(GUARD)
        return bool((got == GUARD).all())

    def device_bytes(self) -> np.ndarray:
        return self.memory.cpu().numpy()


def content(seed: int, buffer: str, layer: int, nbytes: int) -> np.ndarray:
    start = np.uint64((seed * 1_000_003 + layer * 7919 + len(buffer) * 104_729) & 0xFFFFFFFF)
    mixed = (np.arange(nbytes, dtype=np.uint64) + start) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed >> np.uint64(40)).astype(np.uint8)


def holds(
    views: dict[tuple[str, int], np.ndarray], seed: int, layers: Iterable[int] | None = None
) -> bool:
    wanted = None if layers is None else set(layers)
    return all(
        np.array_equal(view, content(seed, name, layer, view.size))
        for (name, layer), view in views.items()
        if wanted is None or layer in wanted
    )
