"""ready(), poll(sound=...) and hicache_nsa.ranks, with ranks that are caches of one process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from lockstep import run_in_threads
from rank_work import Plan, RankWork

import hicache_nsa as hc
from hicache_nsa import testing
from hicache_nsa.ranks import Ready, drain_together, poll_together, same_everywhere

PAGE = 4


def new_cache(acks: str = "poll", **options: object) -> hc.HiCache:
    fmt = hc.formats.dsa(1, page_size=PAGE, kv_lora_rank=128, rope_head_dim=4)
    return hc.HiCache(fmt, device_pages=16, host_pages=16, acks=acks, workers=1, **options)


def tokens(*pages: int) -> np.ndarray:
    return np.repeat(np.array(pages, dtype=np.int64), PAGE)


def insert(cache: hc.HiCache, *pages: int) -> None:
    cache.insert(tokens(*pages), cache.allocate(len(pages)))


def evicted(cache: hc.HiCache) -> None:
    """Pages 1 to 3 on host only."""
    insert(cache, 1, 2, 3)
    assert cache.drain(30)
    cache.evict_device(3 * PAGE)


def load(cache: hc.HiCache, *pages: int) -> hc.LoadBack:
    loading = cache.load_back(cache.match_prefix(tokens(*pages)))
    assert loading is not None
    return loading


# -- one cache ------------------------------------------------------------------------------------


def test_nothing_in_flight() -> None:
    cache = new_cache()
    assert cache.in_flight == 0
    assert cache.ready() == Ready(ended=0, sound=0)
    assert cache.poll(0, sound=0) == 0


def test_ready_counts_leading_copies_over_both_directions() -> None:
    """A load between two saves: while it is held, the save behind it is not ready."""
    cache = new_cache()
    evicted(cache)
    with testing.hold(cache, "h2d"):
        insert(cache, 7)
        loading = load(cache, 1, 2, 3)
        insert(cache, 8)
        assert cache.in_flight == 3
        while cache.engine.in_flight("d2h"):
            cache.ready(0.01)
        assert cache.ready() == (1, 1)
        assert cache.ready(0.01) == (1, 1)  # the time passes
    assert cache.ready(30) == (3, 3)
    assert cache.in_flight == 3  # nothing is taken in
    assert not loading.acked
    assert cache.poll(2, sound=2) == 2
    assert loading.acked
    assert cache.in_flight == 1
    assert cache.ready() == (1, 1)
    loading.release()


def test_a_failed_copy_ends_what_is_sound() -> None:
    cache = new_cache()
    insert(cache, 1)
    testing.fail_next(cache, "d2h")
    insert(cache, 2)
    insert(cache, 3)
    assert cache.ready(30) == Ready(ended=3, sound=1)
    assert cache.poll(3, sound=1) == 2
    assert cache.stats().failed_saves == 1
    assert cache.ready() == (1, 1)
    assert cache.poll(1, sound=1) == 1
    cache.check()


def test_a_copy_that_is_right_here_fails_as_agreed() -> None:
    cache = new_cache()
    evicted(cache)
    loading = load(cache, 1, 2, 3)
    assert cache.ready(30) == (1, 1)
    assert loading.done()
    assert loading.error is None
    assert cache.poll(1, sound=0) == 1
    assert loading.acked
    assert loading.error == "this copy failed on another rank"
    with pytest.raises(hc.TransferError, match="another rank"):
        loading.wait(1)
    assert cache.stats().failed_loads == 1
    match = cache.match_prefix(tokens(1, 2, 3))
    assert (match.device_tokens, match.host_tokens) == (0, 3 * PAGE)
    loading.release()
    cache.check()
    assert cache.stats().device.owned_pages == 0


def test_a_failure_far_away_spoils_loads_below_and_inserts_behind() -> None:
    """As one here would: the second load and the insert stand on the first load."""
    cache = new_cache()
    evicted(cache)
    with testing.hold(cache, "h2d"):
        first = load(cache, 1, 2)
        second = load(cache, 1, 2, 3)
        pages = [*second.pages, *cache.allocate(1)]
        result = cache.insert(tokens(1, 2, 3, 4), pages, lock=True)
    assert cache.ready(30) == (2, 2)
    assert cache.poll(2, sound=0) == 1
    assert cache.poll(1, sound=1) == 1
    assert second.error is not None
    assert cache.match_prefix(tokens(1, 2, 3, 4)).device_tokens == 0
    for held in (first, second):
        held.release()
    cache.unlock(result.handle)
    cache.check()
    assert cache.stats().device.free_pages == 16


def test_numbers_that_no_agreement_gives() -> None:
    cache = new_cache()
    with testing.hold(cache, "d2h"):
        insert(cache, 1)
        before = cache.digest()
        for limit, sound, message in [
            (None, 0, "sound=0 of limit=None"),
            (1, 2, "sound=2 of limit=1"),
            (1, 1, "limit=1, sound=1, but only 0 copies"),
        ]:
            with pytest.raises(ValueError, match=message):
                cache.poll(limit, sound=sound)
        with pytest.raises(ValueError, match="sound"):
            cache.poll(1, sound=-1)
        with pytest.raises(TypeError, match="sound"):
            cache.poll(1, sound=True)
        with pytest.raises(ValueError, match="timeout"):
            cache.ready(-1)
        assert cache.digest() == before
    cache.ready(30)
    cache.poll(1, sound=1)
    testing.fail_next(cache, "d2h")
    insert(cache, 2)
    assert cache.ready(30) == (1, 0)
    with pytest.raises(ValueError, match="0 of them sound"):
        cache.poll(1, sound=1)
    assert cache.in_flight == 1


def test_a_cache_that_takes_in_copies_in_any_call_has_nothing_to_agree_on() -> None:
    cache = new_cache("auto")
    with pytest.raises(hc.HiCacheError, match='acks="poll"'):
        cache.ready()
    with pytest.raises(hc.HiCacheError, match='acks="poll"'):
        cache.poll(0, sound=0)


def test_after_close() -> None:
    cache = new_cache()
    cache.close()
    for call in (cache.ready, cache.digest, lambda: cache.in_flight):
        with pytest.raises(hc.HiCacheError, match="closed"):
            call()


# -- what no call but poll may change --------------------------------------------------------------

CALLS: dict[str, Callable[[hc.HiCache], object]] = {
    "match_prefix": lambda cache: cache.match_prefix(tokens(1, 2, 3)),
    "load_back": lambda cache: load(cache, 1, 2, 3).pages,
    "allocate": lambda cache: cache.allocate(2),
    "insert": lambda cache: insert(cache, 9, 8),
    "lock": lambda cache: cache.lock(cache.match_prefix(tokens(1, 2))),
    "evict_device": lambda cache: cache.evict_device(5 * PAGE),
    "evict_host": lambda cache: cache.evict_host(5 * PAGE),
    "stats": lambda cache: replace(cache.stats().device, eviction_age=None),  # no clock in it
    "in_flight": lambda cache: cache.in_flight,
    "drain": lambda cache: cache.drain(30),
    "reset": lambda cache: cache.reset(),
    "clear": lambda cache: cache.clear(),
    "invalidate": lambda cache: cache.invalidate(),
}
WAITS = ("drain", "reset", "clear")


@contextmanager
def held_back(cache: hc.HiCache) -> Iterator[None]:
    with testing.hold(cache, "h2d"), testing.hold(cache, "d2h"):
        yield


@pytest.mark.parametrize("policy", ["write_through", "write_through_selective", "write_back"])
@pytest.mark.parametrize("name", CALLS)
def test_a_call_does_the_same_whether_copies_have_ended_or_not(name: str, policy: str) -> None:
    """One cache's load and saves are held, the other's have ended: the answers are the same."""
    digests, answers = [], []
    for slow in (True, False):
        cache = new_cache(write_policy=policy)
        insert(cache, 1, 2, 3)
        cache.match_prefix(tokens(1, 2, 3))
        assert cache.drain(30)
        cache.evict_device(3 * PAGE)
        assert cache.drain(30)
        with ExitStack() as stack:
            if slow:
                stack.enter_context(held_back(cache))
            insert(cache, 5, 6)
            cache.match_prefix(tokens(5, 6))
            load(cache, 1, 2)
            insert(cache, 7)
            cache.evict_device(PAGE)
            if not slow:
                assert cache.ready(30).ended == cache.in_flight
            if slow and name in WAITS:
                stack.close()
            answer = CALLS[name](cache)
            digests.append(cache.digest())
            answers.append(getattr(answer, "tolist", lambda answer=answer: repr(answer))())
    assert answers[0] == answers[1]
    assert digests[0] == digests[1]


def test_pages_come_back_in_the_same_order_whatever_their_streams_do() -> None:
    """A stream that is stuck delays the copies that use its pages, not the pages."""
    go, order = threading.Event(), []
    for stuck in (True, False):
        cache = new_cache()
        stream = hc.CpuStream()
        if stuck:
            stream.enqueue(go.wait)
        pages = cache.allocate(9)
        cache.free(pages[3:5], stream=stream)
        cache.insert(tokens(1, 2, 3), pages[:3], stream=stream)
        cache.free(pages[7:], stream=stream)
        order.append([cache.allocate(n).tolist() for n in (3, 1, 5)])
        order[-1].append(cache.digest())
        if stuck:
            assert cache.ready() == (0, 0)
            go.set()
        stream.close()
        cache.close()
    assert order[0] == order[1]


# -- ranks ----------------------------------------------------------------------------------------


def least_of(others: list[list[int]], asked: list[list[int]]) -> Callable[..., list[int]]:
    """A collective with ranks that say what stands in ``others``, one call after the other."""

    def least(numbers: list[int]) -> list[int]:
        asked.append(list(numbers))
        return [min(pair) for pair in zip(numbers, others.pop(0), strict=True)]

    return least


def test_no_collective_without_copies() -> None:
    asked: list[list[int]] = []
    assert poll_together(new_cache(), least_of([], asked)) == 0
    assert drain_together(new_cache(), least_of([], asked)) == 0
    assert asked == []


def test_what_another_rank_has_not_is_left() -> None:
    cache, asked = new_cache(), []
    for page in (1, 2, 3):
        insert(cache, page)
    cache.ready(30)
    least = least_of([[2, 2], [0, 0], [1, 0]], asked)
    assert [poll_together(cache, least) for _ in range(3)] == [2, 0, 1]
    assert asked == [[3, 3], [1, 1], [1, 1]]
    assert cache.stats().failed_saves == 1


def test_drain_needs_a_collective_more_for_a_failure() -> None:
    cache, asked = new_cache(), []
    for page in (1, 2, 3):
        insert(cache, page)
    assert drain_together(cache, least_of([[3, 1], [1, 1]], asked)) == 3
    assert asked == [[3, 3], [1, 1]]


def test_low_water_does_not_try_a_save_again_that_just_failed() -> None:
    """Else a drain would not end while saves of one rank fail."""
    cache, asked = new_cache(write_policy="write_back", low_water=0.5), []
    for page in range(12):
        insert(cache, page)
    assert cache.poll(0, sound=0) == 0
    started = cache.in_flight
    assert started > 0
    drain_together(cache, least_of([[9, 0]] * started, asked))
    assert cache.stats().failed_saves == started
    assert cache.in_flight == 0
    poll_together(cache, least_of([], asked))
    assert cache.in_flight > 0


@pytest.mark.parametrize("step", [0, 1, 1 << 32, (1 << 64) - 1])
def test_same_everywhere(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two digests of 64 bits: whether they are the same is in the least of four numbers."""
    cache, said = new_cache(), []
    for mine, theirs in [(step, step), (step, step ^ 1), (5, 5 << 32)]:
        monkeypatch.setattr(cache, "digest", lambda theirs=theirs: theirs)
        same_everywhere(cache, lambda numbers: said.append(numbers) or numbers)
        monkeypatch.setattr(cache, "digest", lambda mine=mine: mine)
        asked: list[list[int]] = []
        assert same_everywhere(cache, least_of([said.pop()], asked)) == (mine == theirs)
        assert all(-(1 << 63) <= number < 1 << 63 for number in asked[0])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("policy", ["write_through", "write_through_selective", "write_back"])
def test_random_work_of_three_ranks(seed: int, policy: str) -> None:
    """Every step of every rank ends with the same digest, with failures and uneven host room."""
    plan = Plan(seed, steps=200, fail=(0, 2), fail_share=0.03, options={"write_policy": policy})
    notes = run_in_threads(
        3, lambda rank, least: RankWork(plan, rank, (30, 29, 33)[rank], least).run()
    )
    for one, two in pairwise(notes):
        assert one.host_pages == 29
        for name in ("digests", "answers", "taken", "collectives", "drain_collectives", "stats"):
            assert getattr(one, name) == getattr(two, name)
        assert (one.failed_loads, one.failed_saves) == (two.failed_loads, two.failed_saves)
    if policy == "write_through":  # it has most copies: some were ready on one rank only
        assert len({repr(rank.ready) for rank in notes}) > 1
    assert all(rank.left == [0, 0, 0] and rank.idle_collectives == 0 for rank in notes)


# -- a host copy that is wrong on one rank --------------------------------------------------------


def test_a_host_page_that_is_wrong_on_one_rank_is_gone_on_all() -> None:
    """Only that rank knows which page: all of them drop everything that the load read."""
    ranks = [new_cache(verify="all") for _ in range(3)]
    for cache in ranks:
        insert(cache, 1, 2, 3)
        assert cache.drain(30)
        cache.evict_device(3 * PAGE)
    wrong = ranks[1].match_prefix(tokens(1, 2, 3)).host_pages[1]
    for other in (ranks[0], ranks[2]):
        other.match_prefix(tokens(1, 2, 3))
    testing.corrupt(ranks[1], int(wrong), 0, 9)
    loads = [load(cache, 1, 2, 3) for cache in ranks]
    for each in loads:
        assert each._loads[0].ticket.wait_end(30)
    agreed = [min(column) for column in zip(*(cache.ready(30) for cache in ranks), strict=True)]
    assert agreed == [1, 0]
    for cache, each in zip(ranks, loads, strict=True):
        assert cache.poll(agreed[0], sound=agreed[1]) == 1
        assert each.error is not None
        each.release()
        cache.check()
        assert cache.match_prefix(tokens(1, 2, 3)).tokens == 0
        assert cache.stats().host.free_pages == 16
        assert cache.stats().corrupt_pages == (1 if cache is ranks[1] else 0)
    assert len({cache.digest() for cache in ranks}) == 1
