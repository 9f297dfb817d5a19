"""The radix tree by itself: splits, locks, order of eviction, memory of keys."""

from __future__ import annotations

import numpy as np
import pytest

from hicache_nsa import InvariantError, RadixTree
from hicache_nsa._core import TokenSpan
from hicache_nsa.tree import Node

P = 4


def span(*tokens: int) -> TokenSpan:
    return TokenSpan(np.array(tokens, dtype=np.int64))


def add(tree: RadixTree, tokens, pages, host=None, namespace: bytes = b"") -> Node:
    """Insert ``tokens`` with ``pages`` for what is new, as the cache does."""
    tokens = TokenSpan(np.asarray(tokens, dtype=np.int64))
    path, end = tree.find(tokens, namespace)
    parent = tree.cut(path[-1], end) if path else tree.root(namespace)
    node = tree.add(parent, tokens.slice(end, len(tokens)))
    tree.set_device(node, np.asarray(pages, dtype=np.int64))
    if host is not None:
        tree.set_host(node, np.asarray(host, dtype=np.int64))
    tree.touch(node.path(), hit=False)
    tree.check()
    return node


def test_find_counts_whole_pages_only() -> None:
    tree = RadixTree(P)
    add(tree, range(16), [0, 1, 2, 3])
    for length, expected in [(0, 0), (3, 0), (4, 4), (7, 4), (16, 16), (19, 16)]:
        query = TokenSpan(np.arange(length))
        assert tree.find(query)[1] == expected
    assert tree.find(span(0, 1, 2, 3, 4, 5, 9, 9))[1] == 4
    assert tree.find(span(0, 1, 9, 9))[1] == 0
    assert tree.find(TokenSpan(np.arange(8)), b"other")[1] == 0


def test_split_keeps_the_lower_object_and_all_counts() -> None:
    tree = RadixTree(P)
    node = add(tree, range(16), [7, 5, 3, 1], host=[0, 1])
    tree.lock(node)
    upper = tree.split(node, 8)
    tree.check()
    assert upper.value.tolist() == [7, 5] and node.value.tolist() == [3, 1]
    assert upper.host_value.tolist() == [0, 1] and node.host_value is None
    assert upper.lock_ref == node.lock_ref == 1 and node.parent is upper
    assert (tree.device.cached, tree.device.locked) == (4, 4)
    tree.unlock(node)
    tree.check()
    assert tree.device.locked == tree.host.locked == 0


def test_eviction_takes_tails_of_the_oldest_leaf_first() -> None:
    tree = RadixTree(P)
    a = add(tree, range(8), [0, 1])
    b = add(tree, range(100, 112), [2, 3, 4])
    add(tree, [*range(8), 50, 51, 52, 53], [5])
    tree.touch(b.path(), hit=False)
    taken = [tree.evict(tree.device, 1).pages.tolist() for _ in range(7)]
    assert taken == [[5], [1], [0], [4], [3], [2], []]
    assert not tree.roots and a.removed
    tree.check()


def test_locked_nodes_stay() -> None:
    tree = RadixTree(P)
    add(tree, range(8), [0, 1])
    below = add(tree, range(12), [2])
    tree.lock(below)
    assert tree.device.evictable == 0 and len(tree.evict(tree.device, 9).pages) == 0
    tree.unlock(below)
    assert sorted(tree.evict(tree.device, 9).pages.tolist()) == [0, 1, 2]


def test_dropped_pages_are_those_in_no_tier() -> None:
    tree = RadixTree(P)
    add(tree, range(16), [0, 1, 2, 3], host=[8, 9])
    (node,) = tree.nodes()
    keys = node.packed_keys
    out = tree.evict(tree.device, 3)
    assert (out.pages.tolist(), out.dropped_keys) == ([1, 2, 3], keys[16:])
    tree.check()
    out = tree.evict(tree.host, 5)
    assert (sorted(out.pages.tolist()), out.dropped_keys) == ([8, 9], keys[8:16])
    tree.check()
    assert tree.find(TokenSpan(np.arange(16)))[1] == 4


def test_keys_do_not_keep_whole_prompts_alive() -> None:
    tree = RadixTree(P)
    prompt = np.arange(4000)
    add(tree, prompt, np.arange(1000))
    tree.evict(tree.device, 990)
    (node,) = tree.nodes()
    assert len(node.key) == 40 and len(node.packed_key) == 40 * 4
    add(tree, [*range(20), *range(9000, 9020)], np.arange(2000, 2005))
    assert sum(len(n.packed_key) for n in tree.nodes()) == 4 * sum(len(n.key) for n in tree.nodes())


def test_an_empty_namespace_leaves_nothing_behind() -> None:
    tree = RadixTree(P)
    for i in range(50):
        add(tree, range(8), [2 * i, 2 * i + 1], namespace=str(i).encode())
    assert len(tree.roots) == 50
    tree.evict(tree.device, 100)
    assert not tree.roots


@pytest.mark.parametrize(
    "damage",
    [
        lambda tree, node: setattr(node, "lock_ref", -1),
        lambda tree, node: setattr(node, "value", np.array([1, 2])),
        lambda tree, node: setattr(node, "host_value", np.array([1])),
        lambda tree, node: setattr(node.parent, "value", node.parent.value[:1]),
        lambda tree, node: setattr(node, "start", 4),
        lambda tree, node: setattr(node, "device_entry", 0),
        lambda tree, node: setattr(tree.device, "cached", 4),
        lambda tree, node: tree.roots.clear() or tree.root(b"empty"),
    ],
)
def test_check_finds_damage(damage) -> None:
    tree = RadixTree(P)
    add(tree, range(8), [0, 1])
    node = add(tree, range(12), [2])
    damage(tree, node)
    with pytest.raises(InvariantError):
        tree.check()


def test_page_size_is_checked() -> None:
    for bad in (0, -1, 1.5, True):
        with pytest.raises((ValueError, TypeError)):
            RadixTree(bad)
