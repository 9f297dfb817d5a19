"""The pages of one tier: ``DevicePool`` on the engine's tensors, ``HostPool`` on host memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hicache_nsa import _core
from hicache_nsa.errors import HiCacheError, OutOfPages, native_check
from hicache_nsa.formats import PoolFormat
from hicache_nsa.formats.checks import one_of, positive_int
from hicache_nsa.overlap import refuse_overlaps
from hicache_nsa.sizes import format_size, parse_size
from hicache_nsa.tensors import PageView, inspect, view_pages
from hicache_nsa.tokens import PageIds, int64_array, page_ids

LAYOUTS = ("layer_first", "page_first", "page_first_direct")
MAX_PAGES = (1 << 32) - 2  # the page allocator keeps 32-bit ids


def native_format(format: PoolFormat) -> _core.PoolFormat:
    """``format`` as the C++ core takes it."""
    buffers = [(b.name, b.page_bytes, list(b.layers)) for b in format.buffers]
    return _core.PoolFormat(format.page_size, format.num_layers, buffers)


class Pool:
    """Hands out page ids of one tier. Not thread-safe by itself: ``HiCache`` holds its lock."""

    def __init__(self, tier: str, num_pages: int, reserved: Iterable[int] = ()) -> None:
        self.tier = tier
        self.num_pages = num_pages
        known = reserved if isinstance(reserved, np.ndarray) else list(reserved)
        ids = np.unique(page_ids(known, num_pages, "reserved pages"))
        self._allocator = _core.PageAllocator(num_pages, ids)

    @property
    def total_pages(self) -> int:
        """Pages that can be handed out: all but the reserved ones."""
        return self._allocator.total_pages

    @property
    def free_pages(self) -> int:
        """Pages that ``allocate`` can hand out now."""
        return self._allocator.free_pages

    @property
    def free_extents(self) -> int:
        """Runs of neighbouring pages that the free pages form."""
        return self._allocator.num_extents

    @property
    def largest_free_extent(self) -> int:
        """Pages of the longest of them, 0 when none is free."""
        return self._allocator.largest_extent

    def allocate(self, num_pages: int) -> PageIds:
        """``num_pages`` page ids (int64, ascending), neighbours where possible.

        Raises:
            OutOfPages: fewer are free; nothing changed.
        """
        pages = self._allocator.allocate(num_pages)
        if pages is None:
            raise OutOfPages(
                f"{num_pages} {self.tier} pages wanted, {self.free_pages} of "
                f"{self.total_pages} are free"
            )
        return pages

    def free(self, pages: Any) -> None:
        """Give pages back. A double, foreign or repeated id: ``ValueError``, state unchanged."""
        self._allocator.free(int64_array(pages, "pages"))

    def check(self) -> None:
        """Raise ``InvariantError`` if the allocator's books don't balance."""
        native_check(self._allocator)


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
            pages = _count(pages, "device_pages")
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


class HostPool(Pool):
    """Host pages in one mapping that this object owns and prefaults.

    Exactly one of pages and size: ``size`` (bytes or "50GiB") counts everything, every layer and
    buffer, and is never rounded up. A view taken from ``memory`` keeps the mapping alive.
    layout: ``layer_first``, ``page_first`` or ``page_first_direct``.
    """

    def __init__(
        self,
        format: PoolFormat,
        pages: int | None = None,
        size: int | str | None = None,
        layout: str = "page_first",
        prefault: bool = True,
    ) -> None:
        if not isinstance(format, PoolFormat):
            raise TypeError(f"format must be a PoolFormat, got {type(format).__name__}")
        self.format = format
        self.layout = one_of(layout, "layout", LAYOUTS)
        super().__init__("host", _host_pages(format, pages, size))
        self.native_layout = _core.HostLayout(native_format(format), layout, self.num_pages)
        self._prefault = prefault
        self._memory: _core.HostMemory | None = None
        self._closed = False

    @property
    def nbytes(self) -> int:
        """Bytes of the whole pool: pages times ``format.page_bytes``."""
        return int(self.native_layout.total_bytes)

    @property
    def memory(self) -> _core.HostMemory:
        """The mapping, made at the first use; ``HiCacheError`` if the system refuses it."""
        if self._closed:
            raise HiCacheError("the host pool is closed")
        if self._memory is None:
            try:
                self._memory = _core.HostMemory(self.nbytes, prefault=self._prefault)
            except MemoryError as error:
                raise HiCacheError(
                    f"no memory for a host pool of {self.num_pages} pages "
                    f"({format_size(self.nbytes)}): {error}; ask for fewer"
                ) from error
        return self._memory

    def view(self) -> npt.NDArray[np.uint8]:
        """All bytes of the pool, uint8 [nbytes]; keeps the mapping alive."""
        return self.memory.view()

    def offset(self, buffer: str, layer: int, page: int) -> int:
        """Byte offset in the pool of one page of one (buffer, layer)."""
        names = [b.name for b in self.format.buffers]
        self.format.buffer(buffer)
        return int(self.native_layout.offset(names.index(buffer), layer, page))

    def page_view(self, buffer: str, layer: int, page: int) -> npt.NDArray[np.uint8]:
        """The bytes of one page of one (buffer, layer), uint8 [page_bytes], not a copy."""
        start = self.offset(buffer, layer, page)
        return self.view()[start : start + self.format.buffer(buffer).page_bytes]

    def close(self) -> None:
        """Let go of the mapping; views that are still held keep it alive. Idempotent."""
        self._closed = True
        self._memory = None

    def check(self) -> None:
        """Also the guard zones around the mapping, where the build has them."""
        super().check()
        if self._memory is not None:
            native_check(self._memory)


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


def _count(pages: Any, name: str) -> int:
    """A number of pages, 0 (no such tier) included."""
    if isinstance(pages, (int, np.integer)) and pages is not False and pages == 0:
        return 0
    return positive_int(pages, name, MAX_PAGES)


def _host_pages(format: PoolFormat, pages: int | None, size: int | str | None) -> int:
    if (pages is None) == (size is None):
        raise ValueError(
            f"give exactly one of host_pages and host_size, got host_pages={pages!r}, "
            f"host_size={size!r}"
        )
    if pages is not None:
        return _count(pages, "host_pages")
    nbytes = parse_size(size if size is not None else 0, "host_size")
    count = nbytes // format.page_bytes
    if count > MAX_PAGES:
        raise ValueError(
            f"host_size={size!r} is {count} pages of {format.page_bytes} bytes; "
            f"the largest pool has {MAX_PAGES}"
        )
    if count == 0:
        raise ValueError(
            f"host_size={size!r} is {nbytes} bytes, one page of {format.name!r} takes "
            f"{format.page_bytes}; give at least that, or host_pages=0 for no host tier"
        )
    return count
