"""Which pages of a found path count: landed on device, then further on host, without a gap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hicache_nsa.tokens import NO_PAGES, PageIds, count_pages, join_pages
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
    """The usable part of ``path`` up to position ``end``. The arrays are fresh.

    In each tier a path's pages are an unbroken prefix: the pages of all its nodes, one after the
    other, stand at their places.
    """
    pages = end // page_size
    device = join_pages([node.packed_value for node in path], pages)
    if len(device) == pages:
        return CachedPrefix(device, NO_PAGES, 0)
    host = join_pages([node.packed_host_value for node in path], pages)[len(device) :]
    first, last = len(device) * page_size, (len(device) + len(host)) * page_size
    loading = sum(
        max(min(node.end, last) - max(node.start, first), 0)
        for node in path
        if node.load is not None
    )
    return CachedPrefix(device, host, loading // page_size)


def cached_tokens(path: Sequence[Node], end: int, page_size: int) -> tuple[int, int]:
    """Tokens in the two parts of ``cached_prefix``."""
    device = min(count_pages(node.packed_value for node in path) * page_size, end)
    if device == end:
        return device, 0
    host = min(count_pages(node.packed_host_value for node in path) * page_size, end)
    return device, max(host - device, 0)
