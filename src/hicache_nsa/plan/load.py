"""What a load back of a match needs: pages that are there, loads to join, pages to copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from hicache_nsa.tokens import PageIds, concat_pages
from hicache_nsa.tree.node import Node


class InFlightLoad(Protocol):
    """What planning needs to know of a load in flight."""

    def pages_of(self, start: int, end: int) -> PageIds:
        """Its device pages for positions ``start .. end - 1``."""


class LoadPlan(NamedTuple):
    """The host part of a match as it stands now, in the order of the prefix.

    landed: pages of it that are on the device by now.
    joined: loads in flight that bring the next pages, and ``joined_pages`` of them.
    host_pages: what has to be copied, covering positions ``start .. end - 1``.
    """

    landed: PageIds
    joined: tuple[InFlightLoad, ...]
    joined_pages: PageIds
    host_pages: PageIds
    start: int
    end: int

    @property
    def num_pages(self) -> int:
        """Pages of the host part in all."""
        return len(self.landed) + len(self.joined_pages) + len(self.host_pages)


def plan_load(
    path: Sequence[Node],
    device_pages: PageIds,
    end: int,
    page_size: int,
    room: int | None = None,
) -> LoadPlan | None:
    """Plan the load of what follows ``device_pages``, up to position ``end`` of ``path``.

    room: the most pages that may be copied; the plan ends where they do. None: no limit.

    None where ``device_pages`` are no longer the first ones of the path: they may belong to
    somebody else by now, so that the caller has to match again. A host part that was evicted in
    the meantime ends the plan early.
    """
    device_tokens = len(device_pages) * page_size
    if common_pages(path, device_pages) < len(device_pages):
        return None
    landed: list[PageIds] = []
    joined: list[InFlightLoad] = []
    joined_pages: list[PageIds] = []
    host: list[PageIds] = []
    start = reached = device_tokens
    on_device = True
    for node in path:
        if node.start >= end:
            break
        stop = min(node.end, end)
        count = (stop - node.start) // page_size
        there = min(len(node.device_pages), count) if on_device else 0
        position = node.start + there * page_size
        if position > max(device_tokens, node.start):
            landed.append(node.device_pages[_index(node, device_tokens, page_size) : there])
        reached = max(position, device_tokens)
        start = reached if not host else start
        on_device = on_device and there == count
        if on_device:
            continue
        if node.load is not None:
            if host:
                break  # pages must stay in the order of the prefix
            joined.append(node.load)
            joined_pages.append(node.load.pages_of(reached, stop))
            start = reached = stop
            continue
        saved = min(len(node.host_pages), count)
        host.append(node.host_pages[_index(node, reached, page_size) : saved])
        reached = max(reached, node.start + saved * page_size)
        if saved < count:
            break
    host_pages = concat_pages(host)
    if room is not None and len(host_pages) > room:
        host_pages = host_pages[:room]
        reached = start + room * page_size
    return LoadPlan(
        landed=concat_pages(landed),
        joined=tuple(dict.fromkeys(joined)),
        joined_pages=concat_pages(joined_pages),
        host_pages=host_pages,
        start=start,
        end=reached,
    )


def common_pages(path: Sequence[Node], device_pages: PageIds) -> int:
    """How many of ``device_pages`` are still the path's leading device pages, at their places."""
    there = concat_pages([node.device_pages for node in path])[: len(device_pages)]
    moved = np.flatnonzero(there != device_pages[: len(there)])
    return int(moved[0]) if len(moved) else len(there)


def _index(node: Node, position: int, page_size: int) -> int:
    return max(position - node.start, 0) // page_size
