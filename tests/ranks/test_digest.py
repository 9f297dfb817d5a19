"""The digest of a cache: equal after equal histories, another one after any single difference."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import hicache_nsa as hc
from hicache_nsa import testing
from hicache_nsa._core import ChildTable
from hicache_nsa.tree import Node
from hicache_nsa.tree.digest import PLAIN

PAGE = 4
# Slots of a node that follow from others, or that are in the digest by themselves.
DERIVED = {"children", "parent", "removed", "device_children", "host_children"}
DERIVED |= {"device_entry", "host_entry", "packed_keys"}
BY_THEMSELVES = {"packed_key", "packed_value", "packed_host_value", "load", "save"}


def new_cache() -> hc.HiCache:
    fmt = hc.formats.dsa(1, page_size=PAGE, kv_lora_rank=128, rope_head_dim=4)
    return hc.HiCache(fmt, device_pages=16, host_pages=16, acks="poll", workers=1)


def tokens(*pages: int) -> np.ndarray:
    return np.repeat(np.array(pages, dtype=np.int64), PAGE)


def insert(cache: hc.HiCache, *pages: int, extra_key: str | None = None, priority: int = 0) -> None:
    given = cache.allocate(len(pages))
    cache.insert(tokens(*pages), given, extra_key=extra_key, priority=priority)


def history(cache: hc.HiCache) -> None:
    """A trunk of two pages with two branches, another namespace, all saved."""
    insert(cache, 1, 2, 3)
    insert(cache, 1, 2, 4, 5)
    insert(cache, 1, 2, extra_key="lora", priority=2)
    assert cache.drain(30)
    cache.match_prefix(tokens(1, 2, 3))


@pytest.fixture
def pair() -> tuple[hc.HiCache, hc.HiCache]:
    one, two = new_cache(), new_cache()
    history(one)
    history(two)
    return one, two


def leaf(cache: hc.HiCache, *pages: int) -> Node:
    path, end = cache.tree.find(hc.tokens.token_span(tokens(*pages)))
    assert end == len(pages) * PAGE
    return path[-1]


def test_equal_histories_have_equal_digests(pair: tuple[hc.HiCache, hc.HiCache]) -> None:
    one, two = pair
    assert one.digest() == two.digest() == one.digest()
    assert 0 <= one.digest() < 1 << 64


def test_the_digest_is_the_same_in_every_process() -> None:
    """Not made of hash(), which differs from process to process, nor of addresses."""
    code = "import test_digest as t; c = t.new_cache(); t.history(c); print(c.digest())"
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    cache = new_cache()
    history(cache)
    assert digests == {f"{cache.digest()}\n"}


def test_order_of_children_and_roots_does_not_count(pair: tuple[hc.HiCache, hc.HiCache]) -> None:
    one, two = pair
    tree = one.tree
    for node in [*tree.roots.values(), *tree.nodes()]:
        if len(node.children) > 1:
            turned, node.children = node.children, ChildTable()
            for child in reversed(turned.values()):
                node.children.add(child, tree.page_size)
    assert [len(node.children) for node in tree.roots.values()] == [1, 1]
    tree.roots = dict(reversed(tree.roots.items()))
    assert one.digest() == two.digest()
    one.check()


@pytest.mark.parametrize("name", PLAIN)
def test_every_plain_value_counts(pair: tuple[hc.HiCache, hc.HiCache], name: str) -> None:
    one, two = pair
    node = leaf(one, 1, 2, 4, 5)
    for each in ("start", "end") if name in ("start", "end") else (name,):  # a key keeps its length
        setattr(node, each, getattr(node, each) + 1)
    assert one.digest() != two.digest()


@pytest.mark.parametrize("name", ["value", "host_value"])
def test_every_page_of_every_node_counts(pair: tuple[hc.HiCache, hc.HiCache], name: str) -> None:
    one, two = pair
    expected = two.digest()
    for node in one.tree.nodes():
        pages = getattr(node, name)
        for changed in (None, pages[:-1], pages + 1, pages[::-1]):
            if changed is not None and np.array_equal(changed, pages):
                continue
            setattr(node, name, changed)
            assert one.digest() != expected
        setattr(node, name, pages)
        assert one.digest() == expected


def test_pages_do_not_change_sides(pair: tuple[hc.HiCache, hc.HiCache]) -> None:
    one, _ = pair
    node = leaf(one, 1, 2, 4, 5)
    node.value, node.host_value = np.array([0, 1]), np.array([2])
    first = one.digest()
    node.value, node.host_value = np.array([0]), np.array([1, 2])
    assert one.digest() != first


def test_tokens_above_a_node_count() -> None:
    """The same last page under another trunk, and the same tokens cut into other nodes."""
    digests = set()
    for trunk in ((1, 2), (1, 3), (2, 2)):
        cache = new_cache()
        insert(cache, *trunk)
        insert(cache, *trunk, 9)
        digests.add(cache.digest())
    cache = new_cache()
    insert(cache, 1)
    insert(cache, 1, 2, 9)
    digests.add(cache.digest())
    assert len(digests) == 4


def test_namespaces_count() -> None:
    digests = set()
    for extra_key in (None, "a", b"a", ("a",)):
        cache = new_cache()
        insert(cache, 1, extra_key=extra_key)
        digests.add(cache.digest())
    assert len(digests) == 4


def test_a_root_without_nodes_counts(pair: tuple[hc.HiCache, hc.HiCache]) -> None:
    one, two = pair
    one.tree.root(b"nobody")
    assert one.digest() != two.digest()


CALLS: dict[str, Callable[[hc.HiCache], object]] = {
    "a match": lambda cache: cache.match_prefix(tokens(1, 2)),
    "a lock": lambda cache: cache.lock(cache.match_prefix(tokens(1, 2, 4), count=False)),
    "an eviction": lambda cache: cache.evict_device(PAGE),
    "a host eviction": lambda cache: cache.evict_host(PAGE),
    "pages with a caller": lambda cache: cache.allocate(1),
    "an insert of what is there": lambda cache: insert(cache, 1, 2),
    "a save in flight": lambda cache: insert(cache, 7),
    "a reset": lambda cache: cache.reset(),
    "a clear": lambda cache: cache.clear(),
    "an invalidate": lambda cache: cache.invalidate(),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_on_one_side_counts(pair: tuple[hc.HiCache, hc.HiCache], name: str) -> None:
    one, two = pair
    CALLS[name](one)
    assert one.digest() != two.digest()
    CALLS[name](two)
    assert one.digest() == two.digest()


def test_looking_does_not_count(pair: tuple[hc.HiCache, hc.HiCache]) -> None:
    one, two = pair
    one.match_prefix(tokens(1, 2, 4, 5), count=False)
    one.stats()
    one.check()
    one.poll()
    assert one.digest() == two.digest()


def test_clear_and_invalidate_differ(pair: tuple[hc.HiCache, hc.HiCache]) -> None:
    """Pages allocated before can be inserted after one of them only."""
    one, two = pair
    one.clear()
    two.invalidate()
    assert one.digest() != two.digest()


def test_other_pages_with_the_caller_count() -> None:
    one, two = new_cache(), new_cache()
    pages = one.allocate(2), two.allocate(2)
    one.free(pages[0][:1])
    two.free(pages[1][1:])
    assert one.device_pool.free_pages == two.device_pool.free_pages
    assert one.digest() != two.digest()


def test_what_is_in_flight_counts_and_what_has_ended_does_not() -> None:
    """A copy that has ended and one that has not are the same until they are taken in."""
    one, two = new_cache(), new_cache()
    with testing.hold(one, "d2h"):
        insert(one, 1, 2)
        insert(two, 1, 2)
        assert two.ready(30) == (1, 1)
        assert one.ready() == (0, 0)
        assert one.digest() == two.digest()
        two.poll()
        assert one.digest() != two.digest()
    assert one.ready(30) == (1, 1)
    one.poll()
    assert one.digest() == two.digest()


def test_a_load_in_flight_counts(pair: tuple[hc.HiCache, hc.HiCache]) -> None:
    one, two = pair
    loads = []
    for cache in pair:
        cache.reset()
        loads.append(cache.load_back(cache.match_prefix(tokens(1, 2, 3))))
        assert loads[-1] is not None
    assert one.digest() == two.digest()
    loads[0].release()
    assert one.digest() != two.digest()
    loads[1].release()
    assert one.digest() == two.digest()


def test_every_slot_of_a_node_is_thought_of() -> None:
    """A new slot that eviction or saving decides by belongs into PLAIN."""
    known = {*PLAIN, *BY_THEMSELVES, *DERIVED}
    assert set(Node.__slots__) == known
