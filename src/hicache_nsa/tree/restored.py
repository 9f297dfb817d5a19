"""Make the nodes of what an earlier process left on host."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hicache_nsa._core import packed_page_keys
from hicache_nsa.pools.host_file import RestoredNode
from hicache_nsa.tokens import PACKED_PAGE
from hicache_nsa.tree.node import Node
from hicache_nsa.tree.radix_tree import RadixTree


def restore_host(
    tree: RadixTree, namespaces: Sequence[bytes], nodes: Iterable[RestoredNode]
) -> None:
    """Put ``nodes`` into the empty ``tree``: whole on host, not on the device, hit 1, unlocked.

    They were created and used in the order in which their pages were saved.
    """
    size, host = tree.page_size, tree.host
    made: list[Node] = []
    for parent, root, key, tokens, pages, priority, created, used in nodes:
        above = made[parent] if parent >= 0 else tree.root(namespaces[root])
        keys = packed_page_keys(key, tokens, size, above.packed_keys)
        node = Node(key, keys, above, above.end, above.end + tokens)
        node.packed_host_value = pages
        node.hits = 1
        node.priority = priority
        node.created = created
        node.last_access = used
        above.attach(node, size)
        above.host_children += 1
        made.append(node)
        tree.tokens += tokens
        host.cached += len(pages) // PACKED_PAGE
        tree.clock = max(tree.clock, used)
    leaves = [node for node in made if not node.host_children]
    for node in sorted(leaves, key=lambda leaf: (host.policy.key(leaf), leaf.created)):
        host.offer(node)
