"""Which pages of a found path count: landed on device, then further on host, without a gap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hicache_nsa.tokens import NO_PAGES, PageIds
from hicache_nsa.tree.node import Node


class CachedPrefix(NamedTuple):
    """Pages of a prefix in its order.

    device_pages: those that have landed on the device.
    host_pages: the further ones that are on host only (those being loaded included).
    loading_pages: how many of the latter a load in flight is bringing already.
    """

    device_pages: PageIds
    host_pages: PageIds
    loading_pages: int


def cached_prefix(path: Sequence[Node], end: int, page_size: int) -> CachedPrefix:
    """The usable part of ``path`` up to position ``end``. The arrays are fresh."""
    device: list[PageIds] = []
    for index, node in enumerate(path):
        value = node.value
        if value is None or len(value) * page_size < node.end - node.start:
            return _with_host(device, path, index, end, page_size)
        device.append(value)
    if path and end < path[-1].end:
        device[-1] = device[-1][: (end - path[-1].start) // page_size]
    return CachedPrefix(_join(device), NO_PAGES, 0)


def _with_host(
    device: list[PageIds], path: Sequence[Node], first: int, end: int, page_size: int
) -> CachedPrefix:
    """The same where node ``first`` is the first that is not on the device completely."""
    host: list[PageIds] = []
    loading = 0
    for index in range(first, len(path)):
        node = path[index]
        pages = (min(node.end, end) - node.start) // page_size
        landed = min(len(node.device_pages), pages) if index == first else 0
        device.append(node.device_pages[:landed])
        part = node.host_pages[landed:pages]
        host.append(part)
        if node.load is not None:
            loading += len(part)
        if landed + len(part) < pages:
            break
    return CachedPrefix(_join(device), _join(host), loading)


def _join(parts: list[PageIds]) -> PageIds:
    return np.concatenate(parts) if parts else NO_PAGES
