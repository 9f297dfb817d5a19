"""Reported failures, as they would show in the index by hashes."""

from __future__ import annotations

import hicache_nsa as hc
from hicache_nsa.page_index import HIT, MISS


def stored(index: hc.PageIndex, keys: list[str]) -> None:
    store = index.begin_store(keys)
    assert store is not None
    index.finish_store(store.keys, True)


def test_f03_pages_that_a_load_reads_keep_their_owner() -> None:
    index = hc.PageIndex(4)
    stored(index, ["a1", "a2"])
    reading = index.pin(["a1", "a2"])
    assert index.begin_store(["b1", "b2", "b3", "b4"]) is None
    other = index.begin_store(["b1", "b2"])
    assert other is not None and not set(other.pages) & set(reading)
    index.finish_store(other.keys, True)
    last = index.begin_store(["c1", "c2"])
    assert last is not None and last.evicted == ["b2", "b1"]
    index.unpin(["a1", "a2"])  # released once, and once only
    assert index.stats().pinned_pages == 0
    index.check()


def test_f03_nor_do_they_after_a_reset_or_a_failure_above() -> None:
    for end in ("reset", "failure"):
        index = hc.PageIndex(4)
        index.begin_store(["a1"])
        stored(index, ["a1", "a2"])
        reading = index.pin(["a2"])
        if end == "reset":
            index.reset()
        index.finish_store(["a1"], False)
        store = index.begin_store(["b1", "b2", "b3"])
        assert store is not None and not set(store.pages) & set(reading)
        assert index.begin_store(["c"]) is None
        index.unpin(["a2"])
        assert index.stats().free_pages == 1
        index.check()


def test_f24_a_child_is_not_kept_when_its_parent_was_not_stored() -> None:
    index = hc.PageIndex(4)
    index.begin_store(["a"])
    stored(index, ["a", "b"])
    assert index.finish_store(["a"], False) == ["b", "a"]
    assert index.lookup(["a", "b"]).tolist() == [MISS, MISS]
    below = index.begin_store(["b"], parent="a")
    assert below is not None and below.keys == []
    assert index.stats().free_pages == 4


def test_f28_nothing_behind_a_gap_is_a_hit() -> None:
    index = hc.PageIndex(4)
    stored(index, ["a"])
    index.begin_store(["a", "b"])
    stored(index, ["a", "b", "c"])
    assert index.prefix(["a", "b", "c"]) == 1
    assert index.finish_store(["b"], False) == ["c", "b"]
    assert index.lookup(["a", "b", "c"]).tolist() == [HIT, MISS, MISS]
    assert index.stats().free_pages == 3


def test_f41_eviction_takes_what_is_missing_and_ends() -> None:
    index = hc.PageIndex(4)
    for key in "abc":
        stored(index, [key])
    store = index.begin_store(["x", "y"])
    assert store is not None and store.evicted == ["a"]  # one page was free
    index.pin(["b", "c"])
    assert index.begin_store(["z"]) is None
    assert index.stats().evicted_keys == 1
