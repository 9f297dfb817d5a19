"""``RadixTree``: prefixes of whole pages, one node an edge, with device and host pages.

The tree knows tokens, page ids, locks and order of use. It owns no memory: pages that leave it are
returned to the caller. Rules that hold after every call (``check``):

- a node's key is a whole number of pages, and siblings differ in their first page;
- in each tier the pages form unbroken prefixes: a node with a page there has a parent that is
  there completely;
- a node's lock counts everyone below it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from hicache_nsa._core import TokenSpan, pack_tokens, page_keys, walk
from hicache_nsa.formats.checks import positive_int
from hicache_nsa.tokens import PACKED_KEY, PageIds, concat_pages
from hicache_nsa.tree.check import check_tree
from hicache_nsa.tree.eviction import EvictionPolicy, eviction_policy_of
from hicache_nsa.tree.node import Node, Root, forget_below
from hicache_nsa.tree.tier import DeviceTier, Tier


class Eviction(NamedTuple):
    """Pages that left a tier, and the packed page keys of those that are now left in none.

    uses: of each node that gave up pages its ``last_access`` and how many they were.
    """

    pages: PageIds
    dropped_keys: bytes
    uses: list[tuple[int, int]]


class Demotion(NamedTuple):
    """Device pages that left at once, with a host copy each, and nodes that have pages without one
    which are to leave, children first. uses: see ``Eviction``, of the former.
    """

    pages: PageIds
    leaving: list[Node]
    uses: list[tuple[int, int]]


class _Range(Protocol):
    start: int
    end: int


def _share(copy: _Range | None, position: int) -> tuple[_Range | None, _Range | None]:
    """Which of the two parts of a node split at ``position`` the copy in flight covers."""
    if copy is None:
        return None, None
    return copy if copy.start < position else None, copy if copy.end > position else None


class RadixTree:
    """See the module. Not thread-safe; ``HiCache`` holds its lock.

    page_size: tokens a page. eviction_policy: a name or an ``EvictionPolicy``, for both tiers.
    roots: one root a namespace (``tokens.namespace``); a namespace without nodes has none.
    tokens: in all nodes, each once, whichever tiers have them.
    """

    def __init__(self, page_size: int, eviction_policy: str | EvictionPolicy = "lru") -> None:
        self.roots: dict[bytes, Root] = {}
        self.page_size = positive_int(page_size, "page_size")
        policy = eviction_policy_of(eviction_policy)
        self.device = DeviceTier(policy)
        self.host = Tier("host", "host_value", "host_children", "host_entry", policy)
        self.clock = 0
        self.tokens = 0
        self._keys_may_fall = policy.may_fall

    def successor(self) -> RadixTree:
        """An empty tree with the same settings."""
        return RadixTree(self.page_size, self.device.policy)

    def __del__(self) -> None:
        self.forget_nodes()  # the garbage collector does not see them

    # -- reading ------------------------------------------------------------------------------

    def find(self, tokens: TokenSpan, namespace: bytes = b"") -> tuple[list[Node], int]:
        """The nodes that share whole pages with ``tokens``, and how many tokens they share.

        The last node may be shared in part only. Changes nothing.
        """
        root = self.roots.get(namespace)
        return ([], 0) if root is None else walk(root, tokens, self.page_size)

    def nodes(self) -> Iterator[Node]:
        """Every node but the roots, parents first."""
        stack: list[Node] = list(self.roots.values())
        while stack:
            node = stack.pop()
            stack.extend(node.children.values())
            if node.parent is not None:
                yield node

    def surviving(self, node: Node | None, end: int) -> Node | None:
        """The deepest node still in the tree on ``node``'s path that starts before ``end``."""
        while node is not None and (node.removed or node.start >= end):
            node = node.parent
        return None if node is None or node.parent is None else node

    # -- structure ----------------------------------------------------------------------------

    def root(self, namespace: bytes) -> Root:
        """The root of ``namespace``, made if there is none."""
        root = self.roots.get(namespace)
        if root is None:
            root = self.roots[namespace] = Root(namespace)
        return root

    def add(self, parent: Node, key: TokenSpan, priority: int = 0) -> Node:
        """A new leaf below ``parent``, used now, with no pages yet and hit 1. ``key`` is copied."""
        keys = page_keys(key, self.page_size, parent.packed_keys)
        node = Node(pack_tokens(key), keys, parent, parent.end, parent.end + len(key))
        self.clock += 1
        node.created = node.last_access = self.clock
        node.hits = 1
        node.priority = priority
        parent.attach(node, self.page_size)
        self.tokens += len(key)
        return node

    def split(self, node: Node, position: int) -> Node:
        """Split ``node`` at ``position`` (of the prefix, whole pages); returns the upper part.

        The lower part stays the same object, so that handles, matches and copies in flight that
        refer to it find everything above it by climbing.
        """
        at = position - node.start
        upper = node.insert_above(at, self.page_size)
        upper.lock_ref, upper.pin_ref = node.lock_ref, node.pin_ref
        upper.created, upper.last_access = node.created, node.last_access
        upper.hits, upper.priority = node.hits, node.priority
        upper.load, node.load = _share(node.load, position)
        upper.save, node.save = _share(node.save, position)
        pages = at // self.page_size
        self.device.replace_split(upper, node, node.value, pages)
        self.host.replace_split(upper, node, node.host_value, pages)
        return upper

    def cut(self, node: Node | None, position: int) -> Node | None:
        """The node that ends exactly at ``position`` on ``node``'s path, split off if need be."""
        node = self.surviving(node, position)
        if node is None or node.end <= position:
            return node
        return self.split(node, position)

    def touch(self, path: list[Node], *, hit: bool, priority: int | None = None) -> None:
        """Mark the nodes as used now; ``hit`` also counts a hit, ``priority`` raises theirs."""
        self.clock = now = self.clock + 1
        for node in path:
            node.last_access = now
            if hit:
                node.hits += 1
            if priority is not None and priority > node.priority:
                node.priority = priority
        if self._keys_may_fall:
            for node in path:
                self.device.queue_anew(node)
                self.host.queue_anew(node)

    # -- locks --------------------------------------------------------------------------------

    def lock(self, node: Node | None) -> None:
        """Protect ``node`` and everything above it from eviction, in both tiers."""
        while node is not None and node.parent is not None:
            if node.lock_ref == 0:
                self.device.lock(node)
                self.host.lock(node)
            node.lock_ref += 1
            node = node.parent

    def unlock(self, node: Node | None) -> None:
        """Undo one ``lock`` of the same node."""
        while node is not None and node.parent is not None:
            assert node.lock_ref > 0, f"{node} is not locked"
            node.lock_ref -= 1
            if node.lock_ref == 0:
                self.device.unlock(node)
                self.host.unlock(node)
            node = node.parent

    def pin(self, node: Node | None) -> None:
        """Count ``node`` and everything above it, which the caller has locked, as pinned."""
        while node is not None and node.parent is not None:
            if node.pin_ref == 0:
                self.device.pinned += self.device.count(node)
                self.host.pinned += self.host.count(node)
            node.pin_ref += 1
            node = node.parent

    def unpin(self, node: Node | None) -> None:
        """Undo one ``pin`` of the same node."""
        while node is not None and node.parent is not None:
            assert node.pin_ref > 0, f"{node} is not pinned"
            node.pin_ref -= 1
            if node.pin_ref == 0:
                self.device.pinned -= self.device.count(node)
                self.host.pinned -= self.host.count(node)
            node = node.parent

    # -- pages --------------------------------------------------------------------------------

    def set_device(self, node: Node, pages: PageIds | None) -> None:
        """Set ``node.value``: pages of its leading pages that have landed on the device."""
        self.device.set_pages(node, pages)

    def set_host(self, node: Node, pages: PageIds | None) -> None:
        """Set ``node.host_value``: pages of its leading pages whose save has landed."""
        self.host.set_pages(node, pages)

    def evict(self, tier: Tier, num_pages: int) -> Eviction:
        """Take up to ``num_pages`` pages out of ``tier``, whole pages from the tails of leaves."""
        taken: list[PageIds] = []
        dropped: list[bytes] = []
        uses: list[tuple[int, int]] = []
        while num_pages > 0 and (node := tier.pop_victim()) is not None:
            pages = tier.pages(node)
            assert pages is not None
            keep = len(pages) - num_pages
            if keep > 0:
                taken.append(pages[keep:])
                tier.set_pages(node, pages[:keep].copy())
            else:
                taken.append(pages)
                tier.set_pages(node, None)
            count = len(taken[-1])
            num_pages -= count
            uses.append((node.last_access, count))
            dropped.append(self.trim(node))
        if len(taken) == 1:
            return Eviction(taken[0], dropped[0], uses)
        return Eviction(concat_pages(taken), b"".join(dropped), uses)

    def demote(self, num_pages: int) -> Demotion:
        """Take up to ``num_pages`` pages off the device as ``evict`` does, but none that has no
        host copy: those (and those above them) are marked as leaving, and their nodes returned.
        """
        taken: list[PageIds] = []
        leaving: list[Node] = []
        uses: list[tuple[int, int]] = []
        above: set[Node] = set()  # nodes above one that is leaving
        while num_pages > 0 and (node := self.device.pop_victim()) is not None:
            pages = node.device_pages
            count = min(len(pages), num_pages)
            num_pages -= count
            if node in above or self.host.count(node) < len(pages):
                self.device.leave(node, count)
                leaving.append(node)
                assert node.parent is not None
                above.add(node.parent)
                continue
            keep = len(pages) - count
            taken.append(pages[keep:])
            uses.append((node.last_access, count))
            self.device.set_pages(node, pages[:keep].copy())
        return Demotion(concat_pages(taken), leaving, uses)

    def trim(self, node: Node) -> bytes:
        """Forget the tokens at the node's tail that are in no tier; the packed keys of its pages
        there.
        """
        keys = node.packed_keys
        keep = max(self.device.count(node), self.host.count(node))
        if keep == 0:
            self.remove(node)
            return keys
        gone = keys[keep * PACKED_KEY :]
        if gone:
            tokens = keep * self.page_size
            self.tokens -= node.end - node.start - tokens
            node.shorten(tokens)
        return gone

    def remove(self, node: Node) -> None:
        """Take a leaf without pages out of the tree, and its root with it when that is empty."""
        parent = node.parent
        assert parent is not None and not node.children
        parent.detach(node, self.page_size)
        node.removed = True
        self.tokens -= node.end - node.start
        if not parent.children and isinstance(parent, Root):
            self.roots.pop(parent.namespace, None)

    def forget_nodes(self) -> None:
        """Take out all nodes, whatever they have in the tiers; what callers hold of them is freed
        when they let go. The counts of the tiers are for the caller to clear.
        """
        forget_below(self.roots.values())
        self.roots.clear()
        self.tokens = 0

    def check(self) -> None:
        """Walk the whole tree; raise ``InvariantError`` if a rule of this module is broken."""
        check_tree(self)
