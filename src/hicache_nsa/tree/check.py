"""``check_tree``: every rule of the radix tree, by a walk over all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hicache_nsa._core import namespace_key, packed_page_keys
from hicache_nsa.errors import require, require_equal
from hicache_nsa.tree.node import Node
from hicache_nsa.tree.tier import Tier

if TYPE_CHECKING:
    from hicache_nsa.tree.radix_tree import RadixTree


def check_tree(tree: RadixTree) -> None:
    """Raise ``InvariantError`` with both sides of the first broken equation."""
    for namespace, root in tree.roots.items():
        require_equal("root under its own namespace", root.namespace, namespace)
        require(bool(root.children), f"namespace {namespace!r} has a root and no nodes")
        require_equal("lock_ref of a root", root.lock_ref, 0)
        require_equal("page key of a root", root.packed_keys, namespace_key(namespace))
    nodes = list(tree.nodes())
    for node in nodes:
        _check_node(tree, node)
    require_equal("tokens of the tree", tree.tokens, sum(node.end - node.start for node in nodes))
    for tier in (tree.device, tree.host):
        _check_tier(tier, nodes, tree.page_size)


def _check_node(tree: RadixTree, node: Node) -> None:
    size = tree.page_size
    parent = node.parent
    assert parent is not None
    require(not node.removed, "{} is in the tree and marked as removed", node)
    tokens = node.end - node.start
    require(tokens > 0 and tokens % size == 0, "{} has {} tokens", node, tokens)
    in_key = len(node.packed_key)
    require(in_key in (4 * tokens, 8 * tokens), "{}: its key has {} bytes", node, in_key)
    require_equal("{}: start and the parent's end", node.start, parent.end, node)
    keys = packed_page_keys(node.packed_key, tokens, size, parent.packed_keys)
    require(node.packed_keys == keys, "{}: page keys that are not those of its tokens", node)
    require(parent.children.has(node, size), "{} is not under its first page", node)
    in_tiers = max(tree.device.count(node), tree.host.count(node))
    require_equal("{}: pages of the key and in the fuller tier", tokens // size, in_tiers, node)
    below = sum(child.lock_ref for child in node.children.values()) if node.children else 0
    require(node.lock_ref >= below >= 0, "{}: lock_ref < {} of its children", node, below)
    leaving = node.leaving
    require(0 <= leaving <= tree.device.count(node), "{} has {} pages leaving", node, leaving)
    if leaving:
        require(node.lock_ref > 0, "{} has {} pages leaving and no save", node, leaving)


def _check_tier(tier: Tier, nodes: list[Node], page_size: int) -> None:
    cached = locked = leaving = 0
    for node in nodes:
        count, stays = tier.count(node), tier.staying(node)
        cached += count
        locked += count if node.lock_ref else 0
        leaving += count - stays
        below = staying = 0
        for child in node.children.values():
            below += tier.count(child) > 0
            staying += tier.staying(child) > 0
        require_equal("{}: {} children", tier.children(node), staying, node, tier.name)
        name = "{}: {} children that leave"
        require_equal(name, tier.leaving_children(node), below - staying, node, tier.name)
        if stays < count:
            name = "{}: {} children that stay below pages that leave"
            require_equal(name, staying, 0, node, tier.name)
        if below:
            pages = (node.end - node.start) // page_size
            name = "{}: {} pages above a child that is there"
            require_equal(name, count, pages, node, tier.name)
    require_equal("{} cached pages", tier.cached, cached, tier.name)
    require_equal("{} locked pages", tier.locked, locked, tier.name)
    require_equal("{} leaving pages", tier.leaving, leaving, tier.name)
    _check_queue(tier, nodes)


def _check_queue(tier: Tier, nodes: list[Node]) -> None:
    """Every unlocked leaf has one live entry, never behind its key, and not much else is there."""
    queued: dict[Node, Any] = {}
    stale = 0
    name = tier.name
    for key, _, number, node in tier.entries():
        if number != tier.entry(node):
            stale += 1
            continue
        require(node not in queued, "{}: {} queue has it twice", node, name)
        require(tier.count(node) > 0, "{}: {} queue has it without pages there", node, name)
        queued[node] = key
    live = len(queued)
    require_equal("{} queue: stale entries", tier.stale_entries, stale, name)
    require_equal("{} queue: live entries", tier.live_entries, live, name)
    require(stale <= live, "{} queue: {} stale entries, {} live", name, stale, live)
    known = 0
    for node in nodes:
        if node not in queued:
            require_equal("{}: number of no entry of the {}", tier.entry(node), 0, node, name)
            evictable = node.lock_ref == 0 and tier.is_leaf(node)
            require(not evictable, "{}: {} leaf is not queued for eviction", node, name)
            continue
        known += 1
        key, now = queued[node], tier.policy.key(node)
        behind = now < key or (tier.policy.may_fall and key < now)
        require(not behind, "{}: {} queue has it by {}, its key is {}", node, name, key, now)
    require_equal("{} queue: nodes of the tree", known, live, name)
    tier.check_queue()
