"""Bytes that say what they are: a pattern for every (page content, layer, buffer, offset).

``WIPED`` is what is written over memory that nothing may be read from any more.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

import numpy as np

import hicache_nsa as hc

WIPED = 0xEE
LAYOUTS = ("layer_first", "page_first", "page_first_direct")


def pattern(content: int, layer: int, buffer: str, nbytes: int) -> np.ndarray:
    """uint8 [nbytes] that differs for every content, layer, buffer and offset."""
    seed = zlib.crc32(f"{content}/{layer}/{buffer}".encode())
    mixed = (np.arange(nbytes, dtype=np.uint64) + np.uint64(seed)) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed >> np.uint64(40)).astype(np.uint8)


def contents(tokens: Iterable[int], page_size: int, extra: str = "") -> list[int]:
    """What each whole page of ``tokens`` is, itself and everything before it."""
    ids = np.array(list(tokens), dtype=np.int64)
    ends = range(page_size, len(ids) + 1, page_size)
    return [zlib.crc32(extra.encode() + ids[:end].tobytes()) for end in ends]


def device_views(pool: hc.DevicePool, page: int) -> Iterator[tuple[str, int, np.ndarray]]:
    """(buffer, layer, uint8 view) of one device page; the pool's own arrays only."""
    for buffer in pool.format.buffers:
        for layer, array in zip(buffer.layers, pool.buffers[buffer.name], strict=True):
            yield buffer.name, layer, array[page]


def fill(pool: hc.DevicePool, page: int, content: int) -> None:
    for buffer, layer, view in device_views(pool, page):
        view[...] = pattern(content, layer, buffer, view.size)


def wipe(pool: hc.DevicePool, pages: Iterable[int] | None = None) -> None:
    """Overwrite device pages (default: all of them)."""
    for page in range(pool.num_pages) if pages is None else pages:
        for _, _, view in device_views(pool, int(page)):
            view[...] = WIPED


def device_holds(pool: hc.DevicePool, page: int, content: int) -> bool:
    return all(
        np.array_equal(view, pattern(content, layer, buffer, view.size))
        for buffer, layer, view in device_views(pool, int(page))
    )


def device_wiped(pool: hc.DevicePool, page: int) -> bool:
    return all((view == WIPED).all() for _, _, view in device_views(pool, int(page)))


def host_holds(pool: hc.HostPool, page: int, content: int) -> bool:
    return all(
        np.array_equal(
            pool.page_view(buffer.name, layer, int(page)),
            pattern(content, layer, buffer.name, buffer.page_bytes),
        )
        for buffer in pool.format.buffers
        for layer in buffer.layers
    )
