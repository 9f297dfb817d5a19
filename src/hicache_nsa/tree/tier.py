"""A tier's side of the tree: which pages it holds, how many are locked, which leaf goes next."""

from __future__ import annotations

import heapq
from typing import cast

from hicache_nsa.tokens import PACKED_PAGE, PageIds
from hicache_nsa.tree.node import Node


class Tier:
    """Counters and eviction order of one tier. Only ``RadixTree`` calls the methods that change it.

    A *leaf* of a tier is a node with pages there and no child that has any, apart from pages that
    are leaving. Pages leave a tier only from the tail of an unlocked leaf, so a tier's pages always
    form unbroken prefixes.

    The order is least recently used first: a heap with one entry a leaf. A node that was used
    since it was queued is queued anew when it comes up, so that a use costs nothing and an
    eviction O(log n).

    cached, locked, leaving: pages in all, in locked nodes, and about to leave.
    pages, children, queued: names of the ``Node`` attributes that belong to this tier; ``children``
        counts those that have pages which stay.
    """

    def __init__(self, name: str, pages: str, children: str, queued: str) -> None:
        self.name = name
        self.cached = 0
        self.locked = 0
        self.leaving = 0
        self._pages = pages
        self._packed = f"packed_{pages}"
        self._children = children
        self._queued = queued
        self._heap: list[tuple[int, int, Node]] = []
        self._sequence = 0

    @property
    def evictable(self) -> int:
        """Pages that eviction can take now."""
        return self.cached - self.locked

    def pages(self, node: Node) -> PageIds | None:
        """The node's pages in this tier, None when there are none."""
        return cast("PageIds | None", getattr(node, self._pages))

    def count(self, node: Node) -> int:
        """How many pages the node has in this tier."""
        packed = getattr(node, self._packed)
        return 0 if packed is None else len(packed) // PACKED_PAGE

    def staying(self, node: Node) -> int:
        """How many of them are not about to leave."""
        return self.count(node)

    def children(self, node: Node) -> int:
        """How many of the node's children have pages in this tier that stay."""
        return cast(int, getattr(node, self._children))

    def is_leaf(self, node: Node) -> bool:
        """Whether the node has pages here that stay, and none of its children has."""
        return self.staying(node) > 0 and getattr(node, self._children) == 0

    def set_pages(self, node: Node, pages: PageIds | None) -> None:
        """Replace the node's pages (None or empty: none) and keep every count right."""
        stayed = self.staying(node)
        old = self.count(node)
        new = 0 if pages is None else len(pages)
        setattr(node, self._pages, pages if new else None)
        self.cached += new - old
        if node.lock_ref:
            self.locked += new - old
        self._update_parent(node, stayed)
        self.offer(node)

    def _update_parent(self, node: Node, stayed: int) -> None:
        """``node`` had ``stayed`` pages that stay: count it among its parent's children or not."""
        parent = node.parent
        stays = self.staying(node) > 0
        if parent is None or stays == (stayed > 0):
            return
        setattr(parent, self._children, self.children(parent) + (1 if stays else -1))
        if not stays:
            self.offer(parent)

    def replace_split(self, prefix: Node, suffix: Node, pages: PageIds | None, at: int) -> None:
        """Share ``pages`` of a node that was split after page ``at``; totals stay as they are."""
        head = None if pages is None else pages[:at].copy()
        tail = None if pages is None or len(pages) <= at else pages[at:].copy()
        setattr(prefix, self._pages, head)
        setattr(suffix, self._pages, tail)
        self._share_leaving(prefix, suffix)
        setattr(prefix, self._children, 1 if self.staying(suffix) else 0)
        self.offer(prefix)

    def _share_leaving(self, prefix: Node, suffix: Node) -> None:
        """``suffix`` has been split, and has the leaving pages of both."""

    def lock(self, node: Node) -> None:
        """The node's first user came."""
        self.locked += self.count(node)

    def unlock(self, node: Node) -> None:
        """The node's last user went."""
        self.locked -= self.count(node)
        self.offer(node)

    def offer(self, node: Node) -> None:
        """Queue ``node`` for eviction if it is an unlocked leaf and not queued yet."""
        if node.lock_ref == 0 and self.is_leaf(node) and not getattr(node, self._queued):
            setattr(node, self._queued, True)
            self._sequence += 1
            heapq.heappush(self._heap, (node.last_access, self._sequence, node))

    def pop_victim(self) -> Node | None:
        """The unlocked leaf that was used least recently, taken off the queue; None if none is."""
        while self._heap:
            last_access, _, node = heapq.heappop(self._heap)
            setattr(node, self._queued, False)
            if node.removed or node.lock_ref or not self.is_leaf(node):
                continue
            if node.last_access == last_access:
                return node
            self.offer(node)
        return None

    def is_queued(self, node: Node) -> bool:
        """Whether the node stands in the eviction queue."""
        return cast(bool, getattr(node, self._queued))

    def clear(self) -> None:
        """Nothing cached, nothing locked, nothing queued (the nodes are gone or reset)."""
        for _, _, node in self._heap:
            setattr(node, self._queued, False)
        self._heap.clear()
        self.cached = 0
        self.locked = 0
        self.leaving = 0


class DeviceTier(Tier):
    """The device: pages leave it at once, or, under write back, once their save is in."""

    def __init__(self) -> None:
        super().__init__("device", "value", "device_children", "device_queued")

    def staying(self, node: Node) -> int:
        """See ``Tier``."""
        return self.count(node) - node.leaving

    def set_pages(self, node: Node, pages: PageIds | None) -> None:
        """See ``Tier``. All of ``pages`` stay, and so does what lies above them."""
        self.stay(node)
        super().set_pages(node, pages)
        if pages is not None and len(pages) and node.parent is not None:
            self.stay(node.parent)

    def _share_leaving(self, prefix: Node, suffix: Node) -> None:
        both = suffix.leaving
        suffix.leaving = min(both, self.count(suffix))
        prefix.leaving = both - suffix.leaving

    def leave(self, node: Node, num_pages: int) -> None:
        """``num_pages`` more of an unlocked leaf's last pages leave once their save is in."""
        stayed = self.staying(node)
        assert 0 < num_pages <= stayed, f"{num_pages} pages of {node} can't leave"
        node.leaving += num_pages
        self.leaving += num_pages
        self._update_parent(node, stayed)
        self.offer(node)

    def stay(self, node: Node | None) -> None:
        """What was to leave of ``node`` and of the nodes above it stays after all."""
        while node is not None and node.leaving:
            stayed = self.staying(node)
            self.leaving -= node.leaving
            node.leaving = 0
            self._update_parent(node, stayed)
            self.offer(node)
            node = node.parent

    def take_leaving(self, node: Node, num_pages: int) -> PageIds:
        """The last ``num_pages`` of those that were to leave do so now. Nothing may lie below."""
        assert 0 < num_pages <= node.leaving, f"{num_pages} pages of {node} are not leaving"
        pages = node.device_pages
        keep = len(pages) - num_pages
        node.value = pages[:keep].copy() if keep else None
        node.leaving -= num_pages
        self.leaving -= num_pages
        self.cached -= num_pages
        if node.lock_ref:
            self.locked -= num_pages
        self.offer(node)
        return pages[keep:]
