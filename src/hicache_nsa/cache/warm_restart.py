"""What the cache tells a host file, and what it finds there. Without a file nothing happens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from hicache_nsa.cache.state import CacheState
from hicache_nsa.tree import Node, restore_host
from hicache_nsa.tree.node import Root


def restore_tree(state: CacheState) -> None:
    """Everything that an earlier process had on host, by the file, is on host again."""
    restored = state.host.take_restored()
    if restored is None:
        return
    restore_host(state.tree, restored.namespaces, restored.nodes)
    state.history.enter(b"".join([node.packed_keys for node in state.tree.nodes()]))
    state.counters.restored_host_tokens += len(restored.pages) * state.page_size
    state.counters.damaged_host_pages += restored.damaged


def publish(state: CacheState, node: Node, count: int) -> None:
    """The last ``count`` of the node's host pages have come: the next process finds them."""
    host = state.host
    if not host.kept:
        return
    pages = node.host_pages
    first = len(pages) - count
    parent = node.parent
    assert parent is not None
    before: int | None = None
    if first > 0:
        before = int(pages[first - 1])
    elif parent.parent is not None:
        before = int(parent.host_pages[-1])
    namespace = b"" if before is not None else cast(Root, parent).namespace
    size = state.page_size
    tokens = node.key.slice(first * size, len(pages) * size)
    host.publish(pages[first:], before, namespace, tokens, node.priority)


def note_priority(state: CacheState, path: Sequence[Node], priority: int) -> None:
    """An insert is about to raise the priority of the nodes of ``path`` that have a lower one."""
    if not state.host.kept:
        return
    for node in path:
        if node.priority < priority:
            state.host.set_priority(node.host_pages, priority)
