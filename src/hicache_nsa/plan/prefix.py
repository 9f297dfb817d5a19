"""Which pages of a found path count: landed on device, then further on host, without a gap."""

from __future__ import annotations

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


def cached_prefix(path: list[Node], end: int, page_size: int) -> CachedPrefix:
    """The usable part of ``path`` up to position ``end``. The arrays are fresh."""
    device: list[PageIds] = []
    host: list[PageIds] = []
    loading = 0
    on_device = True
    for node in path:
        pages = (min(node.end, end) - node.start) // page_size
        landed = 0
        if on_device:
            value = node.value
            landed = 0 if value is None else min(len(value), pages)
            if landed:
                device.append(value[:landed])  # type: ignore[index]
            if landed == pages:
                continue
            on_device = False
        saved = 0 if node.host_value is None else min(len(node.host_value), pages)
        if saved > landed:
            host.append(node.host_value[landed:saved])  # type: ignore[index]
            if node.load is not None:
                loading += saved - landed
        if saved < pages:
            break
    return CachedPrefix(_join(device), _join(host), loading)


def _join(parts: list[PageIds]) -> PageIds:
    return np.concatenate(parts) if parts else NO_PAGES.copy()
