"""What a cache holds is hidden from the cyclic garbage collector, and freed all the same."""

from __future__ import annotations

import gc
import sys

import numpy as np
import pytest

import hicache_nsa as hc
from hicache_nsa.cache.handles import PrefixMatch
from hicache_nsa.tree import Node

PAGE = 4
LEAVES = 300


def filled() -> hc.HiCache:
    fmt = hc.formats.dsa(1, page_size=PAGE, kv_lora_rank=128, rope_head_dim=4)
    cache = hc.HiCache(fmt, device_pages=2 * LEAVES, host_pages=2 * LEAVES)
    for i in range(LEAVES):
        cache.insert([i % 7, 1, 2, 3, i, i, i, i], cache.allocate(2))
    assert cache.drain(30)
    return cache


def test_the_collector_has_no_more_to_walk_with_many_leaves_and_matches() -> None:
    with filled() as cache:
        kept = [cache.match_prefix(np.array([i % 7, 1, 2, 3, i, i, i, i])) for i in range(LEAVES)]
        assert {match.device_tokens for match in kept} == {8}
        seen = [type(each) for each in gc.get_objects()]
        assert Node not in seen and PrefixMatch not in seen
        entries = [
            entry for tier in (cache.tree.device, cache.tree.host) for entry in tier.entries()
        ]
        assert len(entries) >= 2 * LEAVES
        assert not any(gc.is_tracked(entry) for entry in entries)


@pytest.mark.parametrize("end", ["drop", "clear", "reset", "invalidate", "halfway"])
def test_a_node_is_freed_once_nobody_holds_it(end: str) -> None:
    cache = filled()
    node = cache.match_prefix([0, 1, 2, 3, 7, 7, 7, 7])._node
    assert node is not None and node.packed_value is not None
    held = sys.getrefcount(node)
    if end == "clear":
        cache.clear()
    elif end == "reset":
        cache.evict_host(10**6)
        cache.reset()
    elif end != "drop":
        cache.invalidate()
        while end == "invalidate" and cache._state.retired:
            cache.poll()
        if end == "halfway":
            cache.poll()
            assert cache._state.retired
    cache.close()
    del cache
    assert held > 2 and sys.getrefcount(node) == 2  # `node`, and the argument
