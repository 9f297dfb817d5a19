"""Belady's bound, against every way there is to fill a cache of a few pages."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest

from hicache_nsa.simulate.bound import most_hit_pages
from hicache_nsa.simulate.prefixes import prefix_runs
from hicache_nsa.traces import Request

Prefix = tuple[int, ...]
Room = Callable[[int], int]


def request(*pages: int) -> Request:
    return Request(len(pages), np.array(pages, dtype=np.int64))


def prefixes(pages: np.ndarray) -> list[Prefix]:
    return [tuple(pages[: end + 1].tolist()) for end in range(len(pages))]


def found(cache: frozenset[Prefix], wanted: list[Prefix]) -> int:
    """Leading pages that are cached."""
    count = 0
    while count < len(wanted) and wanted[count] in cache:
        count += 1
    return count


def by_trying_all(requests: list[Request], room: Room) -> int:
    """The most hits over all contents that a cache may choose to have after each request."""
    best: dict[frozenset[Prefix], int] = {frozenset(): 0}
    for served, one in enumerate(requests, start=1):
        wanted = prefixes(one.pages)
        after: dict[frozenset[Prefix], int] = {}
        for cache, hits in best.items():
            total = hits + found(cache, wanted)
            there = sorted(cache | set(wanted))
            for size in range(min(room(served), len(there)) + 1):
                for chosen in combinations(there, size):
                    key = frozenset(chosen)
                    after[key] = max(after.get(key, -1), total)
        best = after
    return max(best.values())


def few_prompts(seed: int) -> list[Request]:
    rng = np.random.default_rng(seed)
    return [
        request(*rng.integers(0, 2, int(rng.integers(1, 4))).tolist())
        for _ in range(int(rng.integers(2, 7)))
    ]


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("pages", range(5))
def test_it_is_the_best_there_is(pages: int, seed: int) -> None:
    requests = few_prompts(seed)

    def room(served: int) -> int:
        return pages

    assert most_hit_pages(prefix_runs(requests), room) == by_trying_all(requests, room)


@pytest.mark.parametrize("seed", range(40))
def test_with_less_room_at_a_flush(seed: int) -> None:
    requests = few_prompts(100 + seed)

    def room(served: int) -> int:
        return 1 if served == 2 else 3

    assert most_hit_pages(prefix_runs(requests), room) == by_trying_all(requests, room)


def test_with_all_the_room_only_the_first_sight_of_a_page_misses() -> None:
    requests = [request(*np.random.default_rng(seed).integers(0, 3, 20)) for seed in range(50)]
    runs = prefix_runs(requests)
    distinct = {prefix for one in requests for prefix in prefixes(one.pages)}
    assert runs.pages == len(distinct)
    assert most_hit_pages(runs, lambda served: runs.pages) == 50 * 20 - len(distinct)


def test_runs_are_what_requests_have_as_a_whole() -> None:
    runs = prefix_runs([request(1, 2, 3), request(1, 2, 4), request(), request(1), request(5)])
    assert [[runs.lengths[run] for run in path] for path in runs.paths] == [
        [1, 1, 1],
        [1, 1, 1],
        [],
        [1],
        [1],
    ]
    assert runs.paths[0][:2] == runs.paths[1][:2] and runs.paths[3] == runs.paths[0][:1]
    assert runs.pages == 5
