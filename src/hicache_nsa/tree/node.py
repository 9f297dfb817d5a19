"""One edge of the radix tree: a run of whole pages with a device and a host copy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from hicache_nsa._core import ChildTable, TokenSpan, namespace_key, unpack_tokens, untrack
from hicache_nsa.tokens import NO_PAGES, UINT64, PageIds, PageKeys, pack_pages, unpack_pages

NO_CHILDREN = ChildTable()
"""What every node without children has; never filled."""


class Node:
    """A run of tokens and where its pages are.

    key: the node's own tokens, whole pages: positions ``start .. end - 1`` of the prefix.
    value: device pages of the *leading* pages of the key that have landed; None: there are none.
    host_value: host pages of the leading pages whose save has landed; None when there are none.
    page_keys: uint64, the page key of each page of the key; of a root, where the chain starts.
    lock_ref: users (requests, copies in flight) of this node or of one below it.
    pin_ref: pins of this node or of one below it; each of them is in ``lock_ref`` too.
    load, save: the copy in flight that covers (part of) this node, else None.
    leaving: how many of the last device pages leave the device once their save is in (write back);
        until then they go on matching. No page below them stays.

    created, last_access: ticks of the tree's clock, which every use moves on; the upper part of a
        split was created when the whole was. hits: creation is 1, each counted match one more.
        priority: the highest that an insert gave. Eviction policies order leaves by these four.
    device_children, device_entry, host_children, host_entry: kept by ``Tier``.

    Positions, not nodes, say what a copy in flight covers, so a split needs no bookkeeping there.
    A node that was removed keeps its ``parent``: whoever still holds it climbs to what is left.

    A tree may have a million nodes, so they are small: ``packed_key``, ``packed_keys``,
    ``packed_value`` and ``packed_host_value`` are bytes (``_core.pack_tokens``,
    ``_core.page_keys``, ``tokens.pack_pages``); ``key``, ``page_keys``, ``value`` and
    ``host_value`` make spans and arrays of them, anew each time. A leaf has no table of children
    of its own. And the cyclic garbage collector doesn't see nodes, or each full collection would
    walk them all: ``RadixTree.forget_nodes`` cuts the cycles instead.
    """

    __slots__ = (
        "children",
        "created",
        "device_children",
        "device_entry",
        "end",
        "hits",
        "host_children",
        "host_entry",
        "last_access",
        "leaving",
        "load",
        "lock_ref",
        "packed_host_value",
        "packed_key",
        "packed_keys",
        "packed_value",
        "parent",
        "pin_ref",
        "priority",
        "removed",
        "save",
        "start",
    )

    def __init__(
        self, packed_key: bytes, packed_keys: bytes, parent: Node | None, start: int, end: int
    ) -> None:
        self.packed_key = packed_key
        self.packed_keys = packed_keys
        self.parent = parent
        self.start = start
        self.end = end
        self.children = NO_CHILDREN
        self.packed_value: bytes | None = None
        self.packed_host_value: bytes | None = None
        self.device_children = 0
        self.host_children = 0
        self.lock_ref = 0
        self.pin_ref = 0
        self.load: Any = None
        self.save: Any = None
        self.leaving = 0
        self.created = 0
        self.last_access = 0
        self.hits = 0
        self.priority = 0
        self.device_entry = 0
        self.host_entry = 0
        self.removed = False
        untrack(self)

    @property
    def key(self) -> TokenSpan:
        """The node's tokens, unpacked."""
        return unpack_tokens(self.packed_key, self.end - self.start)

    @property
    def page_keys(self) -> PageKeys:
        """See the class; a read-only array."""
        return np.frombuffer(self.packed_keys, dtype=UINT64)

    @property
    def value(self) -> PageIds | None:
        """Device pages, a read-only array."""
        packed = self.packed_value
        return None if packed is None else unpack_pages(packed)

    @value.setter
    def value(self, pages: PageIds | None) -> None:
        self.packed_value = None if pages is None else pack_pages(pages)

    @property
    def host_value(self) -> PageIds | None:
        """Host pages, a read-only array."""
        packed = self.packed_host_value
        return None if packed is None else unpack_pages(packed)

    @host_value.setter
    def host_value(self, pages: PageIds | None) -> None:
        self.packed_host_value = None if pages is None else pack_pages(pages)

    @property
    def device_pages(self) -> PageIds:
        """``value``, or an empty array."""
        packed = self.packed_value
        return NO_PAGES if packed is None else unpack_pages(packed)

    @property
    def host_pages(self) -> PageIds:
        """``host_value``, or an empty array."""
        packed = self.packed_host_value
        return NO_PAGES if packed is None else unpack_pages(packed)

    def attach(self, child: Node, page_size: int) -> None:
        """Take in ``child``, under the first page of its key."""
        if self.children is NO_CHILDREN:
            self.children = ChildTable()
        self.children.add(child, page_size)

    def detach(self, child: Node, page_size: int) -> None:
        """Let go of ``child``."""
        self.children.remove(child, page_size)
        if not self.children:
            self.children = NO_CHILDREN

    def shorten(self, tokens: int) -> None:
        """Keep the first ``tokens`` of the key."""
        self.packed_keys = self.packed_keys[: self._bytes_of_keys(tokens)]
        self.packed_key = self.packed_key[: self._packed_bytes(tokens)]
        self.end = self.start + tokens

    def insert_above(self, tokens: int, page_size: int) -> Node:
        """Move the first ``tokens`` of the key to a new node between this one and its parent."""
        parent = self.parent
        assert parent is not None, "a root has no tokens to give"
        at, keys = self._packed_bytes(tokens), self._bytes_of_keys(tokens)
        end = self.start + tokens
        upper = Node(self.packed_key[:at], self.packed_keys[:keys], parent, self.start, end)
        parent.children.replace(self, upper, page_size)
        self.packed_key = self.packed_key[at:]
        self.packed_keys = self.packed_keys[keys:]
        self.start += tokens
        self.parent = upper
        upper.attach(self, page_size)
        return upper

    def _packed_bytes(self, tokens: int) -> int:
        """Bytes of ``packed_key`` that hold its first ``tokens``."""
        return len(self.packed_key) // (self.end - self.start) * tokens

    def _bytes_of_keys(self, tokens: int) -> int:
        """Bytes of ``packed_keys`` that are of the pages of its first ``tokens``."""
        return len(self.packed_keys) * tokens // (self.end - self.start)

    def path(self) -> list[Node]:
        """The nodes from below the root down to this one."""
        nodes: list[Node] = []
        node = self
        while node.parent is not None:
            nodes.append(node)
            node = node.parent
        nodes.reverse()
        return nodes

    def __repr__(self) -> str:
        return (
            f"Node({self.start}..{self.end}, device={len(self.device_pages)} "
            f"host={len(self.host_pages)} pages, lock_ref={self.lock_ref})"
        )


def forget_below(nodes: Iterable[Node]) -> None:
    """Take everything below ``nodes`` out of the tree, and cut its cycles."""
    stack = list(nodes)
    while stack:
        node = stack.pop()
        below = node.children.values()
        node.children = NO_CHILDREN
        for child in below:
            child.removed = True
        stack.extend(below)


class Root(Node):
    """The top of one namespace: no tokens, no pages, never locked or evicted."""

    __slots__ = ("namespace",)

    def __init__(self, namespace: bytes) -> None:
        super().__init__(b"", namespace_key(namespace), None, 0, 0)
        self.namespace = namespace
