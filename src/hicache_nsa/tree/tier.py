"""A tier's side of the tree: which pages it holds, how many are locked, which leaf goes next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias, cast

from hicache_nsa.tokens import PACKED_PAGE, PageIds
from hicache_nsa.tree.eviction import EvictionPolicy
from hicache_nsa.tree.min_queue import MinQueue
from hicache_nsa.tree.node import Node
from hicache_nsa.tree.watcher import Watcher

QueueEntry: TypeAlias = tuple[Any, int, int, Node]
"""A key, ``created`` of the node (so that equal keys have an order), the number, the node."""


class Tier:
    """Counters and eviction order of one tier. Only ``RadixTree`` calls the methods that change it.

    A *leaf* of a tier is a node with pages there and no child that has any, apart from pages that
    are leaving. Pages leave a tier only from the tail of an unlocked leaf, so a tier's pages always
    form unbroken prefixes.

    The queue has one live entry for every unlocked leaf; a node remembers its number. A node that
    is no unlocked leaf any more loses its entry when it comes up, and one whose key has grown is
    queued anew then, so that a use costs nothing and an eviction O(log n). Where a use may make
    the key smaller, the use itself queues the node anew. An entry that a node no longer remembers
    is stale; they are thrown out when there are more of them than live ones.

    cached, locked, leaving: pages in all, in locked nodes, and about to leave.
    pages, children, entry: names of the ``Node`` attributes that belong to this tier; ``children``
        counts those that have pages which stay.
    watcher: told of pages that come and go; None: nobody is.
    """

    watcher: Watcher | None = None

    def __init__(
        self, name: str, pages: str, children: str, entry: str, policy: EvictionPolicy
    ) -> None:
        self.name = name
        self.policy = policy
        self.cached = 0
        self.locked = 0
        self.leaving = 0
        self.pinned = 0
        self.live_entries = 0
        self.stale_entries = 0
        self._pages = pages
        self._packed = f"packed_{pages}"
        self._children = children
        self._entry = entry
        self._queue: MinQueue[QueueEntry] = MinQueue()
        self._number = 0

    # -- questions ------------------------------------------------------------------------------

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

    def leaving_children(self, node: Node) -> int:
        """How many of them have pages here all of which are about to leave."""
        return 0

    def is_leaf(self, node: Node) -> bool:
        """Whether the node has pages here that stay, and none of its children has."""
        return getattr(node, self._children) == 0 and getattr(node, self._packed) is not None

    def entry(self, node: Node) -> int:
        """The number of the node's live entry in the eviction queue, 0 when it has none."""
        return cast(int, getattr(node, self._entry))

    def entries(self) -> Iterator[QueueEntry]:
        """All entries of the eviction queue, live and stale, in no order."""
        return iter(self._queue)

    # -- pages and locks ------------------------------------------------------------------------

    def set_pages(self, node: Node, pages: PageIds | None) -> None:
        """Replace the node's pages (None or empty: none) and keep every count right."""
        old = self.count(node)
        new = 0 if pages is None else len(pages)
        setattr(node, self._pages, pages if new else None)
        self.cached += new - old
        if node.lock_ref:
            self.locked += new - old
        if node.pin_ref:
            self.pinned += new - old
        parent = node.parent
        if new:
            if not old and parent is not None:
                setattr(parent, self._children, getattr(parent, self._children) + 1)
            self.offer(node)
        elif old:
            if getattr(node, self._entry):
                self._withdraw(node)
            if parent is not None:
                below = getattr(parent, self._children) - 1
                setattr(parent, self._children, below)
                if not below:
                    self.offer(parent)
        if self.watcher is not None:
            self.watcher.changed(self, node, old, new)

    def replace_split(self, prefix: Node, suffix: Node, pages: PageIds | None, at: int) -> None:
        """Share ``pages`` of a node that was split after page ``at``; totals stay as they are."""
        head = None if pages is None else pages[:at].copy()
        tail = None if pages is None or len(pages) <= at else pages[at:].copy()
        setattr(prefix, self._pages, head)
        setattr(suffix, self._pages, tail)
        setattr(prefix, self._children, 0 if tail is None else 1)
        if tail is None and getattr(suffix, self._entry):
            self._withdraw(suffix)
        self.offer(prefix)

    def lock(self, node: Node) -> None:
        """The node's first user came."""
        self.locked += self.count(node)

    def unlock(self, node: Node) -> None:
        """The node's last user went."""
        pages = self.count(node)
        if pages:
            self.locked -= pages
            self.offer(node)

    # -- the order of eviction ------------------------------------------------------------------

    def offer(self, node: Node) -> None:
        """Queue ``node`` for eviction if it is an unlocked leaf and not queued yet."""
        if not node.lock_ref and not getattr(node, self._entry) and self.is_leaf(node):
            self._push(node, self.policy.key(node))

    def queue_anew(self, node: Node) -> None:
        """The node was used, and its key may have become smaller."""
        if getattr(node, self._entry):
            self._withdraw(node)
            self.offer(node)

    def pop_victim(self) -> Node | None:
        """The unlocked leaf that goes first, taken off the queue; None if there is none."""
        queue = self._queue
        while (entry := queue.pop()) is not None:
            key, _, number, node = entry
            if getattr(node, self._entry) != number:
                self.stale_entries -= 1
                continue
            setattr(node, self._entry, 0)
            self.live_entries -= 1
            if self.stale_entries > self.live_entries:
                self._drop_stale()
            if node.lock_ref or not self.is_leaf(node):
                continue
            now = self.policy.key(node)
            if key < now:
                self._push(node, now)
                continue
            return node
        return None

    def shrink(self, entries: int) -> int:
        """Let go of up to ``entries`` places in the queue, whichever; returns how many.

        For a tree that is given up bit by bit: to drop a million of them at once takes long.
        """
        return self._queue.shrink(entries)

    def clear(self) -> None:
        """Nothing cached, nothing locked, nothing queued (the nodes are gone or reset)."""
        for _, _, _, node in self._queue:
            setattr(node, self._entry, 0)
        self._queue.clear()
        self.cached = self.locked = self.pinned = self.leaving = 0
        self.live_entries = self.stale_entries = 0

    def check_queue(self) -> None:
        """Raise ``InvariantError`` if the eviction queue is out of order."""
        self._queue.check()

    def _push(self, node: Node, key: Any) -> None:
        self._number += 1
        setattr(node, self._entry, self._number)
        self.live_entries += 1
        self._queue.push((key, node.created, self._number, node))

    def _withdraw(self, node: Node) -> None:
        """The node's entry becomes stale."""
        setattr(node, self._entry, 0)
        self.live_entries -= 1
        self.stale_entries += 1
        if self.stale_entries > self.live_entries:
            self._drop_stale()

    def _drop_stale(self) -> None:
        """O(n), after more than n/2 entries have become stale: O(1) for each of them."""
        self._queue.keep(lambda entry: getattr(entry[3], self._entry) == entry[2])
        self.stale_entries = 0


class DeviceTier(Tier):
    """The device: pages leave it at once, or, under write back, once their save is in."""

    def __init__(self, policy: EvictionPolicy) -> None:
        super().__init__("device", "value", "device_children", "device_entry", policy)
        self._leaving_children: dict[Node, int] = {}  # of the parents that have any

    def staying(self, node: Node) -> int:
        """See ``Tier``."""
        return self.count(node) - node.leaving

    def leaving_children(self, node: Node) -> int:
        """See ``Tier``."""
        return self._leaving_children.get(node, 0)

    def clear(self) -> None:
        """See ``Tier``."""
        super().clear()
        self._leaving_children.clear()

    def is_leaf(self, node: Node) -> bool:
        """See ``Tier``."""
        return super().is_leaf(node) and (not node.leaving or self.staying(node) > 0)

    def set_pages(self, node: Node, pages: PageIds | None) -> None:
        """See ``Tier``. All of ``pages`` stay, and so does what lies above them."""
        if self.leaving:
            self.stay(node)
        super().set_pages(node, pages)
        if self.leaving and node.packed_value is not None:
            self.stay(node.parent)

    def replace_split(self, prefix: Node, suffix: Node, pages: PageIds | None, at: int) -> None:
        """See ``Tier``. The last pages of both are those that leave."""
        super().replace_split(prefix, suffix, pages, at)
        if suffix.leaving:
            prefix.leaving = max(suffix.leaving - self.count(suffix), 0)
            suffix.leaving -= prefix.leaving
            if suffix.leaving and self.staying(suffix) == 0:
                prefix.device_children = 0
                self._count_leaving(prefix, 1)
            self.offer(prefix)

    def leave(self, node: Node, num_pages: int) -> None:
        """``num_pages`` more of an unlocked leaf's last pages leave once their save is in."""
        assert 0 < num_pages <= self.staying(node), f"{num_pages} pages of {node} can't leave"
        node.leaving += num_pages
        self.leaving += num_pages
        parent = node.parent
        if parent is not None and self.staying(node) == 0:
            parent.device_children -= 1
            self._count_leaving(parent, 1)
            self.offer(parent)
        self.offer(node)

    def stay(self, node: Node | None) -> None:
        """What was to leave of ``node`` and of the nodes above it stays after all."""
        while node is not None and node.leaving:
            parent = node.parent
            if parent is not None and self.staying(node) == 0:
                parent.device_children += 1
                self._count_leaving(parent, -1)
            self.leaving -= node.leaving
            node.leaving = 0
            self.offer(node)
            node = parent

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
        if not keep:
            assert node.parent is not None
            self._count_leaving(node.parent, -1)
            if node.device_entry:
                self._withdraw(node)
        self.offer(node)
        if self.watcher is not None:
            self.watcher.changed(self, node, len(pages), keep)
        return pages[keep:]

    def _count_leaving(self, parent: Node, change: int) -> None:
        """So many more children of ``parent`` have pages all of which are about to leave."""
        count = self._leaving_children.pop(parent, 0) + change
        if count:
            self._leaving_children[parent] = count
