"""``DevicePool``: device pages, on the engine's tensors or on arrays made here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from hicache_nsa import _core
from hicache_nsa.errors import HiCacheError
from hicache_nsa.formats import PoolFormat
from hicache_nsa.overlap import refuse_overlaps
from hicache_nsa.pools.pool import Pool, page_count
from hicache_nsa.sizes import format_size
from hicache_nsa.tensors import PageView, inspect, view_pages


class DevicePool(Pool):
    """Device pages: the engine's own tensors, or arrays allocated here (numpy on
    the CPU, torch on a GPU).

    buffers: {buffer name: one tensor per owning layer}, in the order of ``BufferFormat.layers``.
        Each is ``[pages, ...]`` or ``[pages * page_size, ...]``; see ``tensors``.
    pages: number of pages; needed without ``buffers``, else it must agree with them.
    reserved: page ids that are never handed out (an engine's padding page 0).

    Raises:
        ValueError: a tensor does not fit the format, names the tensor and the bytes expected.
        HiCacheError: a device this build or this machine does not have.
    """

    def __init__(
        self,
        format: PoolFormat,
        buffers: Mapping[str, Sequence[Any]] | None = None,
        pages: int | None = None,
        device: str = "cpu",
        reserved: Iterable[int] = (),
    ) -> None:
        if not isinstance(format, PoolFormat):
            raise TypeError(f"format must be a PoolFormat, got {type(format).__name__}")
        self.format = format
        self.device = check_device(device)
        if pages is not None:
            pages = page_count(pages, "device_pages")
        if buffers is None:
            if pages is None:
                raise ValueError("give device_pages (how many) or device_buffers (your tensors)")
            buffers = _allocate_buffers(format, pages, self.device)
        self.views = _views(format, buffers, pages, self.device)
        counts = {view.num_pages for views in self.views.values() for view in views}
        super().__init__("device", pages if pages is not None else counts.pop(), reserved)
        self.buffers = {name: list(tensors) for name, tensors in buffers.items()}

    @property
    def native_buffers(self) -> list[_core.DeviceBuffer]:
        """Every (buffer, layer) in the format's order, as the C++ engine takes them."""
        return [view.native for buffer in self.format.buffers for view in self.views[buffer.name]]

    def close(self) -> None:
        """Let go of the tensors; what the caller still holds stays alive. Idempotent."""
        self.buffers = {}
        self.views = {}


def check_device(device: Any) -> str:
    """``device`` as ``cpu`` or ``cuda:N``, if this machine has it; else says what is missing."""
    name = str(device)
    if name in ("cpu", "cpu:0"):
        return "cpu"
    if name.split(":")[0] != "cuda":
        raise ValueError(f"device={name!r} is unknown; known: cpu, cuda, cuda:N")
    try:
        return f"cuda:{_core.cuda_device_index(name)}"
    except RuntimeError as error:
        raise HiCacheError(f"device={name!r}: {error}") from error


def _allocate_buffers(format: PoolFormat, pages: int, device: str) -> dict[str, list[Any]]:
    """Zeroed uint8 [pages, page_bytes] for each (buffer, layer); on a GPU they are torch's."""
    try:
        return _zeros(format, pages) if device == "cpu" else _torch_zeros(format, pages, device)
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, HiCacheError):
            raise
        raise HiCacheError(
            f"no memory for {pages} device pages ({format_size(pages * format.page_bytes)}) on "
            f"{device}: {error}; ask for fewer"
        ) from error


def _zeros(format: PoolFormat, pages: int) -> dict[str, list[Any]]:
    return {
        b.name: [np.zeros((pages, b.page_bytes), dtype=np.uint8) for _ in b.layers]
        for b in format.buffers
    }


def _torch_zeros(format: PoolFormat, pages: int, device: str) -> dict[str, list[Any]]:
    try:
        import torch
    except ImportError as error:
        raise HiCacheError(
            f"device pages on {device} are allocated by torch, which isn't installed; "
            f"install it or pass device_buffers"
        ) from error
    buffers = {
        # One tensor a buffer: its layers lie equally far apart, which copy engines can use.
        b.name: list(
            torch.zeros(
                (len(b.layers), pages, b.page_bytes), dtype=torch.uint8, device=device
            ).unbind(0)
        )
        for b in format.buffers
    }
    torch.cuda.current_stream(device).synchronize()  # zeroed before any copy runs
    return buffers


def _views(
    format: PoolFormat, buffers: Mapping[str, Sequence[Any]], pages: int | None, device: str
) -> dict[str, list[PageView]]:
    if not isinstance(buffers, Mapping):
        raise TypeError(f"device_buffers must map names to tensors, got {type(buffers).__name__}")
    names = [b.name for b in format.buffers]
    if set(buffers) != set(names):
        raise ValueError(
            f"device_buffers has {sorted(buffers)}, format {format.name!r} has {names}"
        )
    views: dict[str, list[PageView]] = {}
    expected = pages
    for buffer in format.buffers:
        tensors = buffers[buffer.name]
        if not hasattr(tensors, "__len__") or not hasattr(tensors, "__getitem__"):
            raise TypeError(
                f"device_buffers[{buffer.name!r}] must be a sequence with one tensor a layer, "
                f"got {type(tensors).__name__}"
            )
        if len(tensors) != len(buffer.layers):
            raise ValueError(
                f"{buffer.name!r}: {len(tensors)} tensors for {len(buffer.layers)} layers"
            )
        views[buffer.name] = []
        for layer, tensor in zip(buffer.layers, tensors, strict=True):
            info = inspect(tensor, f"device_buffers[{buffer.name!r}] of layer {layer}")
            if info.device != device:
                raise ValueError(f"{info}: the pool's device is {device}")
            view = view_pages(info, buffer, format.page_size)
            if expected is not None and view.num_pages != expected:
                raise ValueError(f"{info}: {view.num_pages} pages, expected {expected}")
            expected = view.num_pages
            views[buffer.name].append(view)
    refuse_overlaps([view for group in views.values() for view in group])
    return views
