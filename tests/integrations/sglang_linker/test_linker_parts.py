"""The linker's parts: slots, leases and chains. No SGLang, no GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from hicache_nsa.integrations.linking.chains import Chains
from hicache_nsa.integrations.linking.leases import Leases
from hicache_nsa.integrations.linking.slots import host_slots, page_ids_of
from hicache_nsa.page_index import PageIndex

Make = Callable[..., Any]


# ---- slots ----


def test_slots_become_pages() -> None:
    slots = host_slots(torch.tensor([*range(128, 192), *range(64, 128)]))
    assert page_ids_of(slots, 64, 4).tolist() == [2, 1]
    assert page_ids_of(np.empty(0, np.int64), 64, 4).tolist() == []
    assert page_ids_of(np.array([3, 1]), 1, 4).tolist() == [3, 1]


@pytest.mark.parametrize(
    ("slots", "says"),
    [
        (range(64, 100), "36 slots are no whole number of pages of 64"),
        (range(96, 160), "they begin at slot 96"),
        ([*range(64, 127), 63], "no aligned page of 64"),
        (range(64), "pages 0..0 of the transfer: the pool has pages 1..3"),
        (range(256, 320), "pages 4..4 of the transfer"),
    ],
)
def test_slots_that_are_no_pages(slots: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        page_ids_of(np.array(list(slots)), 64, 4)


# ---- leases ----


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def filled(pages: int, keys: list[str]) -> PageIndex:
    index = PageIndex(pages)
    index.begin_store(keys)
    index.finish_store(keys, True)
    return index


def test_a_lease_ends_with_the_next_lookup_the_load_or_its_time() -> None:
    index, clock = filled(4, ["a", "b", "c", "d"]), Clock()
    leases = Leases(index, 10, clock)
    leases.grant("x", ["a", "b", "c"])
    assert index.stats().pinned_pages == 3
    leases.grant("x", ["a"])  # the next lookup found less
    assert index.stats().pinned_pages == 1
    clock.now = 6
    leases.grant("x", ["a"])  # the same again: the time begins anew
    leases.grant("y", ["a", "b"])
    clock.now = 15.9
    assert leases.expire() == 0
    clock.now = 16
    assert leases.expire() == 2
    assert (len(leases), index.stats().pinned_pages) == (0, 0)
    leases.grant("x", ["a", "b"])
    assert len(leases.take("x", ["a"])) == 1  # the load takes what ranks agreed on
    assert index.stats().pinned_pages == 1
    index.unpin(["a"])
    leases.grant("x", [])
    assert len(leases) == 0


def test_a_load_without_pages_takes_nothing() -> None:
    index = filled(4, ["a"])
    leases = Leases(index, 10)
    leases.grant("x", ["a"])
    with pytest.raises(KeyError, match="gone"):
        leases.take("x", ["a", "gone"])
    assert (len(leases), index.stats().pinned_pages) == (0, 0)


def test_keys_that_are_none_leave_the_lease() -> None:
    index = filled(4, ["a"])
    leases = Leases(index, 10)
    leases.grant("x", ["a"])
    with pytest.raises(ValueError, match="0 bytes"):
        leases.take("x", ["a", ""])
    assert (len(leases), index.stats().pinned_pages) == (1, 1)


# ---- chains ----


def test_chains_remember_what_was_seen_last() -> None:
    chains = Chains(4)
    chains.note(["a", "b", "c"])
    assert [chains.parent_of(key) for key in "abc"] == [None, "a", "b"]
    chains.note(["d", "e"], parent="c")
    assert chains.parent_of("d") == "c"
    for n in range(50):
        chains.note([f"{n}", f"{n}-"])
    assert chains.parent_of("b") is None
    assert len(chains) <= 2 * 4 + 2
