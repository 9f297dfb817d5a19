"""What ``PageIndex`` promises, case by case; order and bookkeeping at length: test_index_model."""

from __future__ import annotations

import gc
import threading
from collections import deque
from typing import Any

import numpy as np
import pytest

import hicache_nsa as hc
from hicache_nsa._core import PageIndex as NativeIndex
from hicache_nsa.page_index import HIT, MISS, PENDING, POLICIES, Store


def filled(index: hc.PageIndex, keys: list[Any], **more: Any) -> Store:
    store = index.begin_store(keys, **more)
    assert store is not None
    index.finish_store(store.keys, True)
    index.check()
    return store


def test_a_key_is_pending_until_its_store_ends() -> None:
    index = hc.PageIndex(4)
    store = index.begin_store([b"a", "b"])
    assert store is not None and store.keys == [b"a", "b"] and store.evicted == []
    assert store.pages.dtype == np.int64 and store.pages.tolist() == [2, 3]
    states = index.lookup([b"a", "b", "c"])
    assert states.dtype == np.uint8 and states.tolist() == [PENDING, PENDING, MISS]
    assert index.finish_store([b"a", "b"], True) == []
    assert index.lookup(["a", b"b"]).tolist() == [HIT, HIT]  # the same bytes, the same key
    assert index.prefix([b"a", "b", "c"]) == 2 and index.prefix(["c", b"a"]) == 0
    assert len(index) == 2


def test_keys_come_back_as_they_were_given() -> None:
    index = hc.PageIndex(3)
    keys = ["ä" * 32, b"\x00\xff" * 32, "x"]
    filled(index, keys)
    store = index.begin_store(["1", "2", "3"])
    assert store is not None and store.evicted == keys[::-1]
    assert [type(key) for key in store.evicted] == [str, bytes, str]
    assert index.finish_store(["2"], False) == ["3", "2"]  # 3 is below it, its page withheld
    assert index.stats().withheld_pages == 1
    assert index.finish_store(["3"], True) == ["3"]


def test_results_and_keys_outlive_what_they_came_from() -> None:
    index = hc.PageIndex(100)
    store = filled(index, [f"{n}" * 20 for n in range(10)])
    pages, states = index.pin(store.keys), index.lookup(store.keys)
    index.unpin(store.keys)
    del index
    gc.collect()
    assert pages.tolist() == [*range(90, 100)] and states.tolist() == [HIT] * 10


@pytest.mark.parametrize(
    "make", [list, tuple, deque, iter, dict.fromkeys, lambda k: (x for x in k)]
)
def test_any_iterable_of_keys_will_do(make: Any) -> None:
    index = hc.PageIndex(4)
    filled(index, ["a", "b"])
    assert index.lookup(make(["b", "z"])).tolist() == [HIT, MISS]


def test_no_keys() -> None:
    index = hc.PageIndex(4)
    assert index.lookup([]).shape == (0,) and index.prefix([]) == 0 and index.pin([]).size == 0
    index.unpin([])
    index.touch([])
    store = index.begin_store([])
    assert store is not None and store.keys == [] and store.pages.size == 0
    assert index.finish_store([], False) == []


def test_a_store_gets_neighbours_in_a_full_index() -> None:
    index = hc.PageIndex(64)
    for n in range(40):
        store = filled(index, [f"{n}.{page}" for page in range(8)])
        assert np.diff(store.pages).tolist() == [1] * 7
    assert index.stats().evicted_keys == 40 * 8 - 64


def test_a_pin_is_counted_and_keeps_everything_above_it() -> None:
    index = hc.PageIndex(4)
    filled(index, ["a", "b", "c", "d"])
    assert index.pin(["b", "b"]).tolist() == [1, 1]
    assert index.begin_store(["x", "y", "z"]) is None
    index.unpin(["b"])
    assert index.begin_store(["x", "y", "z"]) is None and index.stats().pinned_pages == 1
    index.unpin(["b"])
    store = index.begin_store(["x", "y", "z"])
    assert store is not None and store.evicted == ["d", "c", "b"]


def test_lookup_is_no_use_and_pin_and_touch_are() -> None:
    for use in (lambda i: i.touch(["a"]), lambda i: (i.pin(["a"]), i.unpin(["a"]))):
        index = hc.PageIndex(2)
        filled(index, ["a"])
        filled(index, ["b"])
        index.lookup(["a"])
        index.prefix(["a"])
        use(index)
        assert filled(index, ["c"]).evicted == ["b"]
    index = hc.PageIndex(2)
    filled(index, ["a"])
    filled(index, ["b"])
    index.lookup(["a"])
    index.prefix(["a"])
    assert filled(index, ["c"]).evicted == ["a"]


def test_repeated_keys() -> None:
    index = hc.PageIndex(2)
    filled(index, ["a"])
    filled(index, ["b"])
    assert index.lookup(["a", "a", "z", "z"]).tolist() == [HIT, HIT, MISS, MISS]
    assert index.prefix(["a", "a", "b"]) == 3
    index.touch(["a", "b", "a"])  # the last time counts
    with pytest.raises(ValueError, match=r"keys\[2\], 'x', is keys\[0\] again"):
        index.begin_store(["x", "y", "x"])
    with pytest.raises(ValueError, match=r"keys\[1\], b'a', is keys\[0\] again"):
        index.begin_store(["a", b"a"])
    assert filled(index, ["c"]).evicted == ["b"]
    index.begin_store(["d"])
    with pytest.raises(ValueError, match=r"keys\[1\] of 2, 'd', is there twice"):
        index.finish_store(["d", "d"], True)
    assert index.lookup(["d"]).tolist() == [PENDING]


def test_two_stores_of_one_chain_and_the_first_fails() -> None:
    index = hc.PageIndex(8)
    first = index.begin_store(["a", "b"])
    second = index.begin_store(["a", "b", "c", "d"])
    assert first is not None and second is not None and second.keys == ["c", "d"]
    assert index.finish_store(["c"], True) == []
    assert index.lookup([*"abcd"]).tolist() == [PENDING, PENDING, HIT, PENDING]
    assert index.prefix([*"abcd"]) == 0
    assert index.finish_store(["a", "b"], False) == ["d", "c", "b", "a"]
    assert index.lookup([*"abcd"]).tolist() == [MISS] * 4
    again = index.begin_store([*"abcd"])  # d is still being written by the second store
    assert again is not None and again.keys == ["a", "b", "c"]
    assert index.stats().free_pages == 4 and index.stats().withheld_pages == 1
    assert index.finish_store(["d"], True) == ["d"]
    assert index.lookup(["d"]).tolist() == [MISS]
    last = index.begin_store([*"abcd"])
    assert last is not None and last.keys == ["d"]
    index.check()


def test_a_chain_begins_below_its_parent_or_not_at_all() -> None:
    index = hc.PageIndex(4)
    lost = index.begin_store(["b", "c"], parent="a")
    assert lost is not None and lost.keys == [] and index.stats().left_out_keys == 2
    filled(index, ["a"])
    filled(index, ["b", "c"], parent="a")
    assert filled(index, ["x", "y", "z"]).evicted == ["c", "b"]


def test_reset_leaves_nothing_to_find() -> None:
    index = hc.PageIndex(4)
    filled(index, ["a", "b"])
    index.begin_store(["c"])
    index.pin(["a"])
    assert index.reset() == 3 and len(index) == 0
    assert index.lookup(["a", "b", "c"]).tolist() == [MISS] * 3
    with pytest.raises(KeyError, match="'a', is not in the index"):
        index.pin(["a"])
    store = index.begin_store(["a", "b"])
    assert store is not None and store.keys == []  # somebody still reads what a held
    index.unpin(["a"])
    assert index.finish_store(["c"], True) == ["c"]
    assert filled(index, ["a", "b"]).keys == ["a", "b"]
    assert index.stats().free_pages == 2


@pytest.mark.parametrize("policy", POLICIES)
def test_a_reset_keeps_policy_and_counters(policy: str) -> None:
    index = hc.PageIndex(4, policy=policy)
    filled(index, ["a", "b", "c"])
    filled(index, ["d", "e"])
    store = index.begin_store(["f"])
    assert store is not None
    index.finish_store(store.keys, False)
    counted = (index.stats().evicted_keys, index.stats().failed_keys)
    dropped = len(index)
    assert index.reset() == dropped and index.reset() == 0
    index.check()
    stats = index.stats()
    assert (stats.policy, stats.free_pages, stats.free_extents) == (policy, 4, 1)
    assert (stats.evicted_keys, stats.failed_keys) == counted == (2, 1)
    assert filled(index, ["a", "b", "c", "d"]).evicted == []
    assert index.prefix(["a", "b", "c", "d"]) == 4
    assert filled(index, ["e"]).evicted == ["d"]


def test_stats_add_up() -> None:
    index = hc.PageIndex(10, policy="fifo")
    filled(index, ["a", "b", "c"])
    index.begin_store(["p", "q"])
    index.begin_store(["r"])
    index.pin(["a", "b"])
    index.reset()
    filled(index, ["x"])
    stats = index.stats()
    assert stats.policy == "fifo" and stats.total_pages == 10
    assert (stats.hit_pages, stats.pending_pages, stats.withheld_pages) == (1, 0, 5)
    assert stats.free_pages == 4 and stats.pinned_pages == 0
    assert 1 <= stats.largest_free_extent <= 4 and stats.free_extents >= 1


@pytest.mark.parametrize(
    ("keys", "error", "text"),
    [
        ("abc", TypeError, "not one of them, got str"),
        (b"abc", TypeError, "not one of them, got bytes"),
        (7, TypeError, "sequence of bytes or str, got int"),
        (None, TypeError, "got NoneType"),
        (["a", 7], TypeError, r"keys\[1\] must be bytes or str, got int"),
        (["a", bytearray(b"b")], TypeError, r"keys\[1\] must be bytes or str, got bytearray"),
        (["a", ""], ValueError, r"keys\[1\] has 0 bytes; a key has 1 to 64"),
        ([b"x" * 65], ValueError, r"keys\[0\] has 65 bytes"),
        (["ä" * 33], ValueError, r"keys\[0\] has 66 bytes"),
        (["a", "\ud800"], UnicodeEncodeError, "surrogates"),
    ],
)
def test_keys_that_are_none(keys: Any, error: type[Exception], text: str) -> None:
    index = hc.PageIndex(4)
    filled(index, ["a"])
    index.pin(["a"])
    for call in (index.lookup, index.prefix, index.pin, index.unpin, index.touch):
        with pytest.raises(error, match=text):
            call(keys)
    with pytest.raises(error, match=text):
        index.begin_store(keys)
    with pytest.raises(error, match=text):
        index.finish_store(keys, True)
    index.unpin(["a"])
    assert index.stats().free_pages == 3
    index.check()


def test_an_error_inside_an_iterable_is_passed_on() -> None:
    def broken() -> Any:
        yield "a"
        raise OSError("the engine's own")

    index = hc.PageIndex(4)
    with pytest.raises(OSError, match="the engine's own"):
        index.begin_store(broken())
    assert index.stats().free_pages == 4


def test_bad_arguments() -> None:
    for pages, error in (
        (0, ValueError),
        (-1, ValueError),
        (1 << 32, ValueError),
        (1.5, TypeError),
    ):
        with pytest.raises(error, match="pages"):
            hc.PageIndex(pages)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="policy='best' is unknown; known: lru, fifo, mru"):
        hc.PageIndex(4, policy="best")
    with pytest.raises(ValueError, match="'best' is unknown; known: lru, fifo, mru"):
        NativeIndex(4, "best")
    index = hc.PageIndex(4)
    with pytest.raises(ValueError, match="parent has 65 bytes"):
        index.begin_store(["a"], parent="x" * 65)
    with pytest.raises(TypeError, match="parent must be bytes or str, got int"):
        index.begin_store(["a"], parent=7)  # type: ignore[arg-type]
    for priority, wrong in ((1 << 31, ValueError), (0.5, TypeError), (True, TypeError)):
        with pytest.raises(wrong, match="priority"):
            index.begin_store(["a"], priority=priority)  # type: ignore[arg-type]
    assert index.stats().free_pages == 4


@pytest.mark.parametrize("policy", POLICIES)
def test_threads(policy: str) -> None:
    """Each thread stores, pins and drops chains of its own in one index that is too small."""
    index = hc.PageIndex(60, policy)
    failures: list[BaseException] = []

    def work(name: int) -> None:
        try:
            for n in range(300):
                chain = [f"{name}.{n % 7}.{page}" for page in range(1 + n % 9)]
                store = index.begin_store(chain)
                if store is None:
                    continue
                dropped = index.finish_store(store.keys, n % 5 != 0)
                assert n % 5 or {*store.keys} <= {*dropped}
                try:
                    pages = index.pin(chain)
                except KeyError:
                    continue
                assert len({*pages.tolist()}) == len(chain)
                index.unpin(chain)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    index.check()
    assert index.stats().pending_pages == index.stats().pinned_pages == 0


def test_a_large_index_is_made_at_once_and_small_in_use() -> None:
    index = hc.PageIndex(10_000_000)
    store = filled(index, [f"{n}" for n in range(1000)])
    assert store.pages.tolist() == [*range(9_999_000, 10_000_000)]
