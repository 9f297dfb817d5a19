"""Views on an engine's own device tensors: torch, numpy or anything with DLPack or
``__cuda_array_interface__``.

A buffer of one layer is accepted as pages in the first dimension (``[pages, ...]``) or as token
rows (``[pages * page_size, ...]``), packed or strided, as long as each page's bytes form rows of
equal length at a constant distance. Nothing is copied; the view keeps the tensor alive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hicache_nsa import _core
from hicache_nsa.formats import BufferFormat

BYTE_TYPES = ("uint8", "int8")
_DLPACK_CPU = 1
_DLPACK_CUDA = 2


@dataclass(frozen=True)
class TensorInfo:
    """Address and shape of a tensor. Strides are in bytes; ``device`` is ``cpu`` or ``cuda:N``."""

    label: str
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int
    dtype: str
    device: str
    owner: Any

    def __str__(self) -> str:
        return (
            f"{self.label} (shape {self.shape}, dtype {self.dtype}, "
            f"strides {self.strides} bytes, device {self.device})"
        )


@dataclass(frozen=True)
class PageView:
    """Where the pages of one (buffer, layer) lie: page p, row r at
    ``address + p * page_stride + r * row_stride``, ``row_bytes`` bytes each.
    """

    info: TensorInfo
    num_pages: int
    page_stride: int
    rows: int
    row_bytes: int
    row_stride: int

    @property
    def native(self) -> _core.DeviceBuffer:
        """The same as the C++ engine takes it."""
        return _core.DeviceBuffer(
            self.info.address, self.page_stride, self.rows, self.row_bytes, self.row_stride
        )

    @property
    def span(self) -> int:
        """Bytes from a page's first to behind its last byte."""
        return (self.rows - 1) * self.row_stride + self.row_bytes


def inspect(tensor: Any, label: str) -> TensorInfo:
    """Describe ``tensor``; ``TypeError`` if it is no dense array with an address."""
    if isinstance(tensor, np.ndarray):
        if tensor.dtype.hasobject:
            raise TypeError(f"{label}: an array of Python objects has no bytes to copy")
        if not tensor.flags.writeable:
            raise ValueError(f"{label}: the array is read-only; a load has to write to it")
        return TensorInfo(
            label, tensor.ctypes.data, tensor.shape, tensor.strides, tensor.itemsize,
            tensor.dtype.name, "cpu", tensor,
        )  # fmt: skip
    if hasattr(tensor, "data_ptr") and hasattr(tensor, "element_size"):
        return _inspect_torch(tensor, label)
    if hasattr(tensor, "__cuda_array_interface__"):
        return _inspect_cuda_array(tensor, label)
    if hasattr(tensor, "__dlpack__") and hasattr(tensor, "__dlpack_device__"):
        return _inspect_dlpack(tensor, label)
    raise TypeError(
        f"{label}: expected a torch, numpy or DLPack tensor, got {type(tensor).__name__}"
    )


def _inspect_torch(tensor: Any, label: str) -> TensorInfo:
    device = str(tensor.device)
    if device == "cuda":
        device = f"cuda:{tensor.get_device()}"
    dtype = str(tensor.dtype).removeprefix("torch.")
    if str(tensor.layout) != "torch.strided" or device == "meta":
        raise ValueError(f"{label}: layout {tensor.layout} on {device} has no memory to copy")
    size = tensor.element_size()
    strides = tuple(s * size for s in tensor.stride())
    shape = tuple(tensor.shape)
    return TensorInfo(label, tensor.data_ptr(), shape, strides, size, dtype, device, tensor)


def _inspect_cuda_array(tensor: Any, label: str) -> TensorInfo:
    """CuPy, Numba, JAX: anything with ``__cuda_array_interface__``."""
    described = tensor.__cuda_array_interface__
    address, read_only = described["data"]
    if read_only:
        raise ValueError(f"{label}: the array is read-only; a load has to write to it")
    shape = tuple(described["shape"])
    dtype = np.dtype(described["typestr"])
    strides = described.get("strides")
    if strides is None:
        strides = _packed_strides(shape, dtype.itemsize)
    device = f"cuda:{_core.cuda_device_of_address(address)}" if address else "cuda:0"
    return TensorInfo(
        label, int(address), shape, tuple(strides), dtype.itemsize, dtype.name, device, tensor
    )


def _packed_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    steps = [itemsize]
    for size in reversed(shape[1:]):
        steps.append(steps[-1] * size)
    return tuple(reversed(steps))


def _inspect_dlpack(tensor: Any, label: str) -> TensorInfo:
    kind, index = tensor.__dlpack_device__()
    if int(kind) == _DLPACK_CUDA:
        try:
            from torch.utils.dlpack import from_dlpack
        except ImportError as error:
            raise ValueError(
                f"{label}: a DLPack tensor on cuda:{index} is read through torch, which isn't "
                f"installed; pass one with __cuda_array_interface__"
            ) from error
        return inspect(from_dlpack(tensor), label)
    if int(kind) != _DLPACK_CPU:
        raise ValueError(f"{label}: DLPack device type {int(kind)}:{index} is not supported here")
    array = np.from_dlpack(tensor)
    if not array.flags.writeable:
        raise ValueError(f"{label}: the DLPack tensor is read-only; a load has to write to it")
    return inspect(array, label)


def view_pages(info: TensorInfo, buffer: BufferFormat, page_size: int) -> PageView:
    """The pages of ``buffer`` in that tensor.

    Raises:
        ValueError: element type, row width or strides don't fit the format; the message names
            the tensor, its dtype, device and strides, and the bytes expected.
    """
    if info.dtype not in BYTE_TYPES and info.dtype not in buffer.dtypes:
        known = ", ".join((*BYTE_TYPES, *buffer.dtypes))
        raise ValueError(f"{info}: dtype {info.dtype} does not fit {buffer.name!r} ({known})")
    if len(info.shape) < 2 or 0 in info.shape[1:]:
        raise ValueError(
            f"{info}: expected [pages, bytes of a page] or [pages * page_size, bytes of a row]"
        )
    if any(stride < 0 for stride in info.strides):
        raise ValueError(f"{info}: negative strides are not supported; pass a plain view")
    entry = info.itemsize * int(np.prod(info.shape[1:], dtype=np.int64))
    if info.shape[0] == 0 and entry in (buffer.page_bytes, buffer.page_bytes / page_size):
        return PageView(info, 0, buffer.page_bytes, 1, buffer.page_bytes, buffer.page_bytes)
    rows, row_bytes, row_stride = _dense_rows(info, info.shape[1:], info.strides[1:])
    if entry == buffer.page_bytes:
        view = PageView(info, info.shape[0], info.strides[0], rows, row_bytes, row_stride)
    elif entry * page_size == buffer.page_bytes:
        view = _token_rows(info, page_size, rows, entry)
    else:
        raise ValueError(
            f"{info}: {entry} bytes an entry of the first dimension; {buffer.name!r} needs "
            f"{buffer.page_bytes} (a page) or {buffer.page_bytes / page_size:g} (a token's row)"
        )
    if view.num_pages > 1 and not _pages_apart(view):
        raise ValueError(f"{info}: pages overlap ({view.page_stride} bytes from one to the next)")
    return view


def _pages_apart(view: PageView) -> bool:
    """Page after page, or row after row with that row of every page side by side."""
    if view.page_stride >= view.span:
        return True
    side_by_side = (view.num_pages - 1) * view.page_stride + view.row_bytes
    return view.page_stride >= view.row_bytes and view.row_stride >= side_by_side


def _token_rows(info: TensorInfo, page_size: int, rows: int, entry: int) -> PageView:
    tokens, stride = info.shape[0], info.strides[0]
    if tokens % page_size:
        raise ValueError(
            f"{info}: {tokens} token rows are no whole number of pages of {page_size} tokens"
        )
    if rows != 1:
        raise ValueError(f"{info}: a token's row must be contiguous, it has {rows} pieces")
    if stride == entry:  # tokens follow each other: the page is one piece
        return PageView(
            info, tokens // page_size, page_size * stride, 1, page_size * entry, page_size * entry
        )
    if stride < entry:
        raise ValueError(f"{info}: token rows overlap")
    return PageView(info, tokens // page_size, page_size * stride, page_size, entry, stride)


def _dense_rows(
    info: TensorInfo, shape: tuple[int, ...], strides: tuple[int, ...]
) -> tuple[int, int, int]:
    """(rows, bytes of a row, distance of rows) of the bytes behind one entry of dimension 0.

    A page is opaque bytes, so a permuted view is fine as long as its memory is dense: dimensions
    are taken in the order of their strides, and at most one gap between rows is allowed.
    """
    dims = sorted((stride, n) for n, stride in zip(shape, strides, strict=True) if n > 1)
    run = info.itemsize
    gap: tuple[int, int] | None = None
    for stride, n in dims:
        if gap is None and stride == run:
            run *= n
        elif gap is None and stride > run:
            gap = (n, stride)
        elif gap is not None and stride == gap[0] * gap[1]:
            gap = (gap[0] * n, gap[1])
        else:
            raise ValueError(f"{info}: the bytes of a page form no rows of one constant distance")
    return (1, run, run) if gap is None else (gap[0], run, gap[1])
