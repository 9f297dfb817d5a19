"""What the tree does in C++: the walk, tables of children, packed keys; and who frees the nodes."""

from __future__ import annotations

import gc
import sys

import numpy as np
import pytest

from hicache_nsa._core import ChildTable, TokenSpan, pack_tokens, unpack_tokens, untrack, walk
from hicache_nsa.tokens import join_pages, pack_pages, unpack_pages
from hicache_nsa.tree import Node, RadixTree
from hicache_nsa.tree.node import NO_CHILDREN

P = 4
BIG = 1 << 40


def span(*tokens: int) -> TokenSpan:
    return TokenSpan(np.array(tokens, dtype=np.int64))


def node_of(*tokens: int, start: int = 0) -> Node:
    return Node(pack_tokens(span(*tokens)), b"", None, start, start + len(tokens))


@pytest.mark.parametrize(
    "tokens, width",
    [
        ((0, 1, 2), 4),
        ((-(2**31), 2**31 - 1), 4),
        ((2**31,), 8),
        ((1, -(2**31) - 1), 8),
        ((), 4),
        ((2**63 - 1, -(2**63)), 8),
    ],
)
def test_packed_tokens_come_back(tokens: tuple[int, ...], width: int) -> None:
    packed = pack_tokens(span(*tokens))
    assert len(packed) == width * len(tokens)
    assert unpack_tokens(packed, len(tokens)).numpy().tolist() == list(tokens)


def test_packed_bytes_must_be_so_many_tokens() -> None:
    with pytest.raises(ValueError, match="12 bytes are not 2 tokens"):
        unpack_tokens(pack_tokens(span(1, 2, 3)), 2)


def test_packed_pages_come_back_and_join() -> None:
    pages = np.array([5, 2**32 - 3, 0])
    assert unpack_pages(pack_pages(pages)).tolist() == pages.tolist()
    joined = join_pages([pack_pages(pages), None, pack_pages(pages[::-1])], 5)
    assert joined.tolist() == [5, 2**32 - 3, 0, 0, 2**32 - 3]
    joined[0] = 1  # a fresh array
    assert join_pages([None, None], 3).tolist() == []


@pytest.mark.parametrize("high", [0, BIG])
def test_walk_compares_values_whatever_the_width(high: int) -> None:
    """A key with one large id takes 8 bytes a token; it shares what it shares."""
    tree = RadixTree(P)
    tree.add(tree.root(b""), span(1, 2, 3, 4, 5, 6, 7, high))
    path, end = tree.find(span(1, 2, 3, 4, 5, 6, 7, high, 9))
    assert (len(path), end) == (1, 8)
    path, end = tree.find(span(1, 2, 3, 4, 5, 6, 7, high + BIG))
    assert (len(path), end) == (1, 4)
    assert tree.find(span(1, 2, 3, 4 + BIG, 5, 6, 7, high)) == ([], 0)


def test_a_split_keeps_what_walk_finds_at_every_place() -> None:
    tokens = np.arange(400) % 7
    for at in range(P, 400, P):
        tree = RadixTree(P)
        node = tree.add(tree.root(b""), TokenSpan(tokens))
        upper = tree.split(node, at)
        path, end = tree.find(TokenSpan(tokens))
        assert path == [upper, node] and end == 400
        assert upper.key.numpy().tolist() == tokens[:at].tolist()
        assert node.key.numpy().tolist() == tokens[at:].tolist()


def test_a_table_of_many_children_has_each_of_them() -> None:
    """Enough for a table in many parts; the order is that of their coming, whatever leaves."""
    rng = np.random.default_rng(3)
    table, expected = ChildTable(), []
    nodes = [node_of(i, i * 7, 1, BIG * (i % 2)) for i in range(3000)]
    for node in nodes:
        table.add(node, P)
        expected.append(node)
        if rng.random() < 0.3:
            leaves = expected.pop(int(rng.integers(len(expected))))
            table.remove(leaves, P)
            assert not table.has(leaves, P)
    assert table.values() == expected and len(table) == len(expected)
    assert all(table.has(node, P) for node in expected)
    for _ in range(len(expected) // 2):
        assert table.pop() is expected.pop()
    for node in expected:
        table.remove(node, P)
    assert len(table) == 0 and table.values() == []


def test_a_table_tells_what_is_not_there() -> None:
    table, there, other = ChildTable(), node_of(1, 2, 3, 4), node_of(1, 2, 3, 4, 9, 9, 9, 9)
    with pytest.raises(IndexError, match="empty"):
        table.pop()
    table.add(there, P)
    with pytest.raises(KeyError, match="not in this table"):
        table.remove(other, P)
    with pytest.raises(KeyError, match="not in this table"):
        table.replace(other, there, P)
    with pytest.raises(ValueError, match="4 tokens has no page of 5"):
        table.has(there, 5)
    table.replace(there, other, P)
    assert table.values() == [other] and not table.has(there, P)


def test_walk_refuses_what_is_no_tree() -> None:
    root = node_of()
    with pytest.raises(ValueError, match="page_size=0"):
        walk(root, span(1), 0)
    root.children = {}
    with pytest.raises(TypeError, match="ChildTable"):
        walk(root, span(1, 2, 3, 4), P)


def test_the_garbage_collector_sees_no_node() -> None:
    tree = RadixTree(P)
    for i in range(100):
        node = tree.add(tree.root(b""), span(i, 1, 2, 3, 4, 5, 6, 7))
        tree.add(tree.split(node, 4), span(9, 9, 9, i))
    assert not any(gc.is_tracked(node) for node in tree.nodes())
    assert not any(type(seen) is Node for seen in gc.get_objects())
    alone = [alone := []]
    untrack(alone)
    assert not gc.is_tracked(alone)
    untrack(5)  # nothing to hide


@pytest.mark.parametrize("end", ["drop", "forget"])
def test_nodes_are_freed_without_the_garbage_collector(end: str) -> None:
    """Their cycles are cut: nobody has a node any more but who holds it from outside."""
    gc.disable()
    try:
        tree = RadixTree(P)
        upper = tree.add(tree.root(b""), span(*range(8)))
        lower = tree.add(upper, span(*range(4)))
        key = lower.packed_key
        assert sys.getrefcount(lower) == 3  # here, the table, the argument
        if end == "drop":
            del tree
        else:
            tree.forget_nodes()
            assert not tree.roots
        assert upper.removed and lower.removed and upper.children is NO_CHILDREN
        assert lower.parent is upper and sys.getrefcount(lower) == 2
        held = sys.getrefcount(key)
        del lower
        assert sys.getrefcount(key) == held - 1
    finally:
        gc.enable()


def test_a_leaf_has_no_table_of_its_own() -> None:
    tree = RadixTree(P)
    upper = tree.add(tree.root(b""), span(*range(8)))
    leaf = tree.add(upper, span(*range(4)))
    assert leaf.children is NO_CHILDREN and upper.children is not NO_CHILDREN
    tree.remove(leaf)
    assert upper.children is NO_CHILDREN and len(NO_CHILDREN) == 0
