"""load_back(max_tokens=): the leading part of a host part, as much as fits. Page size 4."""

from __future__ import annotations

import random

import hypothesis.strategies as st
import numpy as np
import pytest
from engine import PAGE
from hypothesis import given, settings
from small_cache import LONG, SmallCache

import hicache_nsa as hc
from hicache_nsa import testing
from hicache_nsa._core import TokenSpan, pack_tokens
from hicache_nsa.plan import plan_load
from hicache_nsa.tree.node import Node, Root

A, OTHER = list(range(16)), list(range(100, 112))


def test_the_leading_part_comes_and_the_rest_stays_a_host_hit() -> None:
    with SmallCache(8, 8) as c:
        c.put_on_host(A)
        load = c.start(A, max_tokens=8)
        assert (load.tokens, len(load.pages)) == (8, 2)
        assert load.wait(LONG) and c.holds(load.pages, A)
        assert c.poll() == 1 and c.hit(A) == (8, 8)
        assert c.stats().matched_host_tokens == c.stats().load_back_tokens == 8
        rest = c.start(A, max_tokens=8)
        assert rest.wait(LONG) and c.holds(rest.pages, A, first=2)
        c.end(load)
        c.end(rest)
        assert c.hit(A) == (16, 0) and c.device == (4, 4, 0, 0)


def test_the_path_is_locked_as_far_as_the_load_goes() -> None:
    with SmallCache(8, 8) as c:
        c.put_on_host(A)
        with testing.hold(c.cache, "h2d"):
            load = c.start(A, max_tokens=8)
            assert c.host == (4, 2, 2, 0)
            assert c.evict_host(100) == 8
            assert c.hit(A) == (0, 8)
        assert load.wait(LONG) and c.holds(load.pages, A)
        c.end(load)
        assert c.hit(A) == (8, 0) and c.locks() == {0}


@pytest.mark.parametrize(
    ("max_tokens", "tokens"), [(4, 4), (5, 4), (11, 8), (16, 16), (10**30, 16), (np.int64(9), 8)]
)
def test_the_limit_is_rounded_down_to_pages(max_tokens: int, tokens: int) -> None:
    with SmallCache(8, 8) as c:
        c.put_on_host(A)
        load = c.start(A, max_tokens=max_tokens)
        assert load.tokens == tokens and load.wait(LONG) and c.holds(load.pages, A)
        c.end(load)


@pytest.mark.parametrize("threshold", [0, None])
def test_less_than_a_page_is_nothing(threshold: int | None) -> None:
    with SmallCache(8, 8, load_back_threshold=threshold) as c:
        c.put_on_host(A)
        match, before = c.match_prefix(A, count=False), c.picture()
        assert c.load_back(match, max_tokens=3) is None
        assert c.picture() == before and c.stats().declined_loads == 1


def test_as_much_comes_as_there_is_room_for() -> None:
    with SmallCache(8, 8) as c:
        c.put_on_host(A)
        mine = c.allocate(5)
        match, before = c.match_prefix(A, count=False), c.picture()
        assert c.load_back(match) is None  # all or nothing
        assert c.picture() == before
        load = c.load_back(match, max_tokens=1000)
        assert load.tokens == 12 and c.device[0] == 0
        assert load.wait(LONG) and c.holds(load.pages, A)
        c.free(mine)
        assert c.hit(A) == (12, 4)
        c.end(load)


def test_what_fits_but_is_below_the_threshold_is_not_brought() -> None:
    with SmallCache(8, 8, load_back_threshold=12) as c:
        c.put_on_host(A)
        mine = c.allocate(6)
        match, before = c.match_prefix(A, count=False), c.picture()
        assert c.load_back(match, max_tokens=16) is None  # room for 8
        assert c.load_back(match, max_tokens=8) is None
        assert c.picture() == before
        c.free(mine[:1])
        load = c.load_back(match, max_tokens=16)
        assert load.tokens == 12
        c.end(load)


def test_room_is_made_by_eviction_but_not_of_the_prefix_itself() -> None:
    with SmallCache(5, 12) as c:
        c.put_on_host(A)
        c.end(c.start(A, max_tokens=4))
        assert c.drain(LONG)
        c.put(OTHER)
        assert c.drain(LONG) and c.hit(A) == (4, 12) and c.device == (1, 4, 0, 0)
        kept = c.lock(c.match_prefix(OTHER[:4]))
        load = c.start(A, max_tokens=1000)  # one page is free and two of the other prompt can go
        assert load.tokens == 12 and load.wait(LONG) and c.hit(OTHER) == (4, 8)
        assert c.hit(A) == (16, 0)
        c.end(load)
        c.unlock(kept)
        c.evict_device(100)
        c.end(c.start(A, max_tokens=4))
        assert c.drain(LONG)
        mine = c.allocate(3)
        load = c.start(A, max_tokens=1000)
        assert load.tokens == 4  # its own first page did not make room
        assert load.wait(LONG) and c.hit(A) == (8, 8)
        c.end(load)
        c.free(mine)


def test_the_limit_counts_the_host_part_only() -> None:
    with SmallCache(8, 8) as c:
        c.put_on_host(A)
        c.end(c.start(A, max_tokens=8))
        assert c.drain(LONG)
        load = c.start(A, max_tokens=4)
        assert load.tokens == 4 and load.wait(LONG) and c.holds(load.pages, A, first=2)
        c.end(load)
        assert c.hit(A) == (12, 4)


def test_loads_in_flight_are_joined_and_count() -> None:
    with SmallCache(8, 8) as c:
        c.put_on_host(A)
        with testing.hold(c.cache, "h2d"):
            first = c.start(A, max_tokens=8)
            longer = c.start(A, max_tokens=12)  # joins two pages, copies one
            shorter = c.start(A, max_tokens=4)  # joins one page of the first
            assert longer.tokens == 12 and shorter.tokens == 4
            assert longer.pages[:2].tolist() == first.pages.tolist()
            assert shorter.pages.tolist() == first.pages[:1].tolist()
            assert c.device == (5, 0, 0, 3) and c.loads_submitted() == 2
            mine = c.allocate(5)
            joined = c.start(A, max_tokens=1000)  # no room at all: what is on its way
            assert joined.pages.tolist() == longer.pages.tolist()
        for load in (first, longer, shorter, joined):
            assert load.wait(LONG) and c.holds(load.pages, A)
            c.end(load)
        c.free(mine)
        assert c.hit(A) == (12, 4) and c.stats().load_back_tokens == 12
        assert c.locks() == {0}


def test_what_landed_since_the_match_counts_and_costs_nothing() -> None:
    with SmallCache(8, 8) as c:
        c.put_on_host(A)
        match = c.match_prefix(A, count=False)
        first = c.start(A, max_tokens=8)
        assert first.wait(LONG) and c.poll() == 1
        part = c.load_back(match, max_tokens=4)
        assert part.done() and part.pages.tolist() == first.pages[:1].tolist()
        more = c.load_back(match, max_tokens=12)
        assert more.pages[:2].tolist() == first.pages.tolist() and c.loads_submitted() == 2
        c.end(first)
        for load in (part, more):
            assert load.wait(LONG)
            c.end(load)
        assert c.drain(LONG) and c.hit(A) == (12, 4) and c.locks() == {0}


def test_the_rest_may_follow_and_fail_while_the_first_part_is_in_flight() -> None:
    with SmallCache(8, 8) as c:
        c.put_on_host(A)
        with testing.hold(c.cache, "h2d"):
            first = c.start(A, max_tokens=8)
            testing.fail_next(c.cache, "h2d")
            rest = c.start(A)
            assert rest.pages[:2].tolist() == first.pages.tolist()
            c.put([*A[:4], 9, 9, 9, 9])  # splits inside the first part
            c.match_prefix(A[:12])  # and inside the rest
        with pytest.raises(hc.TransferError):
            rest.wait(LONG)
        assert c.drain(LONG) and c.hit(A) == (8, 8)
        c.end(rest)
        c.end(first)
        assert c.locks() == {0} and c.device == (5, 3, 0, 0)


def test_a_failed_part_leaves_the_rest_loadable() -> None:
    with SmallCache(8, 8) as c:
        c.put_on_host(A)
        testing.fail_next(c.cache, "h2d", 1)
        load = c.start(A, max_tokens=8)
        assert c.drain(LONG) and c.hit(A) == (0, 16)
        c.end(load)
        again = c.start(A, max_tokens=12)
        assert again.wait(LONG) and c.holds(again.pages, A)
        c.end(again)


def test_an_insert_stands_behind_a_part() -> None:
    with SmallCache(8, 8) as c:
        c.put_on_host(A)
        with testing.hold(c.cache, "h2d"):
            load = c.start(A, max_tokens=8)
            result = c.put_behind(load, A)  # the rest is computed: the nodes adopt it
            assert (result.duplicate_tokens, result.inserted_tokens) == (8, 8)
        assert c.drain(LONG) and c.hit(A) == (16, 0)
        c.end(load)
        assert c.device == (4, 4, 0, 0)


def test_a_match_from_before_a_flush_is_stale() -> None:
    with SmallCache(8, 8) as c:
        c.put_on_host(A)
        match = c.match_prefix(A)
        c.reset()
        with pytest.raises(hc.StaleHandleError):
            c.load_back(match, max_tokens=8)


@pytest.mark.parametrize("seed", range(20))
def test_it_brings_the_least_of_limit_host_part_and_room(seed: int) -> None:
    """Prefixes that share nodes, some of it on the device, with part of the device taken."""
    rng = random.Random(seed)
    prompts = [[*A[: 4 * rng.randrange(1, 5)], *[50 + i] * 8] for i in range(3)]
    with SmallCache(16, 32) as c:
        c.put_on_host(*prompts)
        for _ in range(12):
            tokens = rng.choice(prompts)
            taken = c.allocate(rng.randrange(0, 14))
            match = c.match_prefix(tokens, count=False)
            limit = rng.randrange(1, 30)
            free, evictable, _, _ = c.device
            room = free + evictable - len(match.device_pages)
            pages = min(limit // PAGE, len(match.host_pages), room)
            load = c.load_back(match, max_tokens=limit)
            assert (0 if load is None else len(load.pages)) == pages
            if load is not None:
                assert load.wait(LONG)
                assert c.hit(tokens) == (match.device_tokens + load.tokens,
                                         match.host_tokens - load.tokens)  # fmt: skip
                c.end(load)
            c.free(taken)
        assert c.locks() == {0}


# -- the plan by itself --------------------------------------------------------------------------


class Flying:
    """A load in flight of everything from position 0 on."""

    def pages_of(self, start: int, end: int) -> np.ndarray:
        return np.arange(1000 + start // PAGE, 1000 + end // PAGE)


@st.composite
def paths(draw: st.DrawFn) -> list[Node]:
    """Nodes of 1 to 3 pages: the first on the device, then loading, then on host, then cut off."""
    lengths = draw(st.lists(st.integers(1, 3), min_size=1, max_size=5))
    total = sum(lengths)
    device = draw(st.integers(0, total))
    saved = draw(st.integers(device, total))
    flying_nodes = draw(st.integers(0, len(lengths)))
    nodes, parent, at = [], Root(b""), 0
    for index, length in enumerate(lengths):
        key = pack_tokens(TokenSpan(np.arange(length * PAGE)))
        node = Node(key, b"", parent, at * PAGE, (at + length) * PAGE)
        node.value = np.arange(at, at + length)[: max(device - at, 0)]
        node.host_value = 100 + np.arange(at, at + length)[: max(saved - at, 0)]
        if index < flying_nodes and saved >= at + length:
            node.load = Flying()
        nodes.append(node)
        parent, at = node, at + length
    return nodes


@settings(deadline=None)
@given(paths(), st.integers(0, 3), st.integers(1, 16), st.integers(0, 16))
def test_a_bounded_plan_is_the_beginning_of_the_whole_one(
    path: list[Node], known: int, most: int, room: int
) -> None:
    device = np.concatenate([node.device_pages for node in path])[:known]
    start, end = len(device) * PAGE, path[-1].end
    whole = plan_load(path, device, end, PAGE)
    part = plan_load(path, device, min(end, start + most * PAGE), PAGE, room)
    assert whole is not None and part is not None
    pages = [[*plan.landed, *plan.joined_pages, *plan.host_pages] for plan in (whole, part)]
    assert pages[1] == pages[0][: len(pages[1])]
    there = len(whole.landed) + len(whole.joined_pages)
    assert part.num_pages == min(most, whole.num_pages, there + room)
    assert part.end == start + part.num_pages * PAGE
    assert len(part.host_pages) <= room
    if len(part.host_pages):
        assert part.start == whole.start == part.end - len(part.host_pages) * PAGE
