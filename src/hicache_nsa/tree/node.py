"""One edge of the radix tree: a run of whole pages with a device and a host copy."""

from __future__ import annotations

from typing import Any

from hicache_nsa._core import TokenSpan
from hicache_nsa.tokens import NO_PAGES, PageIds


class Node:
    """A run of tokens and where its pages are.

    key: the node's own tokens, whole pages: positions ``start .. end - 1`` of the prefix.
    value: device pages of the *leading* pages of the key that have landed; None: there are none.
    host_value: host pages of the leading pages whose save has landed; None when there are none.
    lock_ref: users (requests, copies in flight) of this node or of one below it.
    load, save: the copy in flight that covers (part of) this node, else None.
    leaving: how many of the last device pages leave the device once their save is in (write back);
        until then they go on matching. No page below them stays.

    created, last_access: ticks of the tree's clock, which every use moves on; the upper part of a
        split was created when the whole was. hits: creation is 1, each counted match one more.
        priority: the highest that an insert gave. Eviction policies order leaves by these four.
    device_children, device_entry, host_children, host_entry: kept by ``Tier``.

    Positions, not nodes, say what a copy in flight covers, so a split needs no bookkeeping there.
    A node that was removed keeps its ``parent``: whoever still holds it climbs to what is left.
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
        "host_value",
        "key",
        "last_access",
        "leaving",
        "load",
        "lock_ref",
        "parent",
        "priority",
        "removed",
        "save",
        "start",
        "value",
    )

    def __init__(self, key: TokenSpan, parent: Node | None, start: int) -> None:
        self.key = key
        self.parent = parent
        self.start = start
        self.end = start + len(key)
        self.children: dict[TokenSpan, Node] = {}
        self.value: PageIds | None = None
        self.host_value: PageIds | None = None
        self.device_children = 0
        self.host_children = 0
        self.lock_ref = 0
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

    @property
    def device_pages(self) -> PageIds:
        """``value``, or an empty array."""
        return NO_PAGES if self.value is None else self.value

    @property
    def host_pages(self) -> PageIds:
        """``host_value``, or an empty array."""
        return NO_PAGES if self.host_value is None else self.host_value

    def attach(self, child: Node, page_size: int) -> None:
        """Keep ``child`` under the first page of its key.

        An older entry goes first: a dict that is only given another value keeps its old key, and
        with it the whole prompt that the key was sliced from.
        """
        first = child.key.slice(0, page_size)
        self.children.pop(first, None)
        self.children[first] = child

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


class Root(Node):
    """The top of one namespace: no tokens, no pages, never locked or evicted."""

    __slots__ = ("namespace",)

    def __init__(self, namespace: bytes) -> None:
        super().__init__(TokenSpan(NO_PAGES), None, 0)
        self.namespace = namespace
