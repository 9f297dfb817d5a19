"""What a flush leaves of the tree: the host copies that can still be reached from the root."""

from __future__ import annotations

from dataclasses import dataclass

from hicache_nsa.tokens import NO_PAGES, PACKED_KEY, PageIds, concat_pages
from hicache_nsa.tree.node import Node
from hicache_nsa.tree.radix_tree import RadixTree


@dataclass(frozen=True)
class Flushed:
    """Pages given back by a flush, by tier; tokens that stayed on host, and packed page keys of
    those lost.
    """

    device_pages: PageIds
    host_pages: PageIds
    kept_host_tokens: int
    dropped_keys: bytes


def flush_device(tree: RadixTree) -> Flushed:
    """Clear every device value and lock; drop nodes without a reachable host copy.

    Host values stay, with their order of use. No copy may be in flight.
    """
    size = tree.page_size
    device: list[PageIds] = []
    lost: list[PageIds] = []
    kept: list[Node] = []
    dropped: list[bytes] = []
    for tier in (tree.device, tree.host):
        tier.clear()
    stack: list[tuple[Node, bool]] = [(root, True) for root in tree.roots.values()]
    while stack:
        node, reachable = stack.pop()
        if node.parent is not None:
            device.append(node.device_pages)
            whole = node.host_pages if reachable else NO_PAGES
            if not reachable:
                lost.append(node.host_pages)
            tokens = node.end - node.start
            dropped.append(node.packed_keys[len(whole) * PACKED_KEY :])
            reachable = len(whole) * size == tokens
            _keep_host(tree, node, whole)
            if not node.removed:
                kept.append(node)
        children = list(node.children.values())
        node.device_children = node.host_children = 0
        stack.extend((child, reachable) for child in children)
    for node in kept:
        assert node.parent is not None
        node.parent.host_children += 1
        tree.host.cached += len(node.host_pages)
    for node in kept:
        tree.host.offer(node)
    dropped_keys = b"".join(dropped)
    tree.tokens -= len(dropped_keys) // PACKED_KEY * size
    for root in [root for root in tree.roots.values() if not root.children]:
        del tree.roots[root.namespace]
    return Flushed(
        concat_pages(device),
        concat_pages(lost),
        tree.host.cached * size,
        dropped_keys,
    )


def _keep_host(tree: RadixTree, node: Node, whole: PageIds) -> None:
    """Reduce ``node`` to its reachable host pages; take it out when there are none."""
    parent = node.parent
    assert parent is not None
    node.value = None
    node.load = node.save = None
    node.lock_ref = node.pin_ref = 0
    keep = len(whole) * tree.page_size
    if keep == 0:
        parent.detach(node, tree.page_size)
        node.host_value = None
        node.removed = True
        return
    if keep < node.end - node.start:
        node.shorten(keep)
