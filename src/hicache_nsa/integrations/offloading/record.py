"""What a page holds, told from the tensors that an engine hands over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from hicache_nsa.formats import BufferFormat, PoolFormat


class BlockTensor(NamedTuple):
    """One of the engine's tensors: ``[pages, page_bytes]`` bytes, strided or not."""

    tensor: Any
    page_bytes: int


class Record(NamedTuple):
    """A format, and the tensors as a ``DevicePool`` takes them."""

    format: PoolFormat
    buffers: dict[str, list[Any]]


def record_of(name: str, page_size: int, tensors: Sequence[BlockTensor]) -> Record:
    """One record of everything that the same page id means in ``tensors``.

    Tensors with pages of one size are the layers of one buffer, in the order given: 61 latent
    tensors and 61 of an indexer become two buffers of 61 layers, whose bytes of a layer lie side by
    side in a host record.

    Raises:
        ValueError: no tensor at all.
    """
    if not tensors:
        raise ValueError(f"{name}: the engine gave no KV cache tensor")
    by_size: dict[int, list[Any]] = {}
    for tensor, page_bytes in tensors:
        by_size.setdefault(page_bytes, []).append(tensor)
    buffers = {f"kv_{page_bytes}": layers for page_bytes, layers in by_size.items()}
    format = PoolFormat(
        name,
        page_size,
        max(len(layers) for layers in buffers.values()),
        tuple(
            BufferFormat(buffer, page_bytes, tuple(range(len(layers))))
            for (buffer, layers), page_bytes in zip(buffers.items(), by_size, strict=True)
        ),
    )
    return Record(format, buffers)
