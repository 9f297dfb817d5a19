"""``check_tree``: every rule of the radix tree, by a walk over all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
    require(not node.removed, f"{node} is in the tree and marked as removed")
    tokens = node.end - node.start
    require(tokens > 0 and tokens % size == 0, f"{node} has {tokens} tokens")
    require(len(node.packed_key) in (4 * tokens, 8 * tokens), f"{node}: its key has other tokens")
    require_equal(f"{node}: start and the parent's end", node.start, parent.end)
    require(parent.children.has(node, size), f"{node} is not under its first page")
    in_tiers = max(tree.device.count(node), tree.host.count(node))
    require_equal(f"{node}: pages of the key and in the fuller tier", tokens // size, in_tiers)
    below = sum(child.lock_ref for child in node.children.values())
    require(node.lock_ref >= below >= 0, f"{node}: lock_ref < {below} of its children")
    require(
        0 <= node.leaving <= tree.device.count(node), f"{node} has {node.leaving} pages leaving"
    )
    if node.leaving:
        require(node.lock_ref > 0, f"{node} has {node.leaving} pages leaving and no save")


def _check_tier(tier: Tier, nodes: list[Node], page_size: int) -> None:
    cached = locked = leaving = 0
    for node in nodes:
        count = tier.count(node)
        cached += count
        locked += count if node.lock_ref else 0
        with_pages = [child for child in node.children.values() if tier.count(child)]
        staying = sum(tier.staying(child) > 0 for child in with_pages)
        name = f"{node}: {tier.name}"
        require_equal(f"{name} children", tier.children(node), staying)
        leaving += count - tier.staying(node)
        if tier.staying(node) < count:
            require_equal(f"{name} children that stay below pages that leave", staying, 0)
        if with_pages:
            pages = (node.end - node.start) // page_size
            require_equal(f"{name} pages above a child that is there", count, pages)
    require_equal(f"{tier.name} cached pages", tier.cached, cached)
    require_equal(f"{tier.name} locked pages", tier.locked, locked)
    require_equal(f"{tier.name} leaving pages", tier.leaving, leaving)
    _check_queue(tier, nodes)


def _check_queue(tier: Tier, nodes: list[Node]) -> None:
    """Every unlocked leaf has one live entry, never behind its key, and not much else is there."""
    queued: dict[Node, Any] = {}
    stale = 0
    for key, _, number, node in tier.entries():
        if number != tier.entry(node):
            stale += 1
            continue
        require(node not in queued, f"{node}: {tier.name} queue has it twice")
        require(tier.count(node) > 0, f"{node}: {tier.name} queue has it without pages there")
        queued[node] = key
    require_equal(f"{tier.name} queue: stale entries", tier.stale_entries, stale)
    require_equal(f"{tier.name} queue: live entries", tier.live_entries, len(queued))
    require(stale <= len(queued), f"{tier.name} queue: {stale} stale entries, {len(queued)} live")
    known = 0
    for node in nodes:
        if node not in queued:
            require_equal(f"{node}: number of no entry of the {tier.name}", tier.entry(node), 0)
            evictable = node.lock_ref == 0 and tier.is_leaf(node)
            require(not evictable, f"{node}: {tier.name} leaf is not queued for eviction")
            continue
        known += 1
        key, now = queued[node], tier.policy.key(node)
        behind = now < key or (tier.policy.may_fall and key < now)
        require(not behind, f"{node}: {tier.name} queue has it by {key}, its key is {now}")
    require_equal(f"{tier.name} queue: nodes of the tree", known, len(queued))
    tier.check_queue()
