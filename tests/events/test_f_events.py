"""F21, F50: what routers are told of pages of both tiers."""

from __future__ import annotations

import pytest
from case_cache import LONG, CaseCache
from consumer import Consumer, cached

from hicache_nsa.cache import Cleared, KvEventLog, Removed, Stored
from hicache_nsa.testing import corrupt, fail_next, hold

N = list(range(16))
M = N[:8] + list(range(50, 58))


def stored(events: list, tier: str) -> list[tuple[int, ...]]:
    return [e.tokens for e in events if isinstance(e, Stored) and e.tier == tier]


class Told:
    """A cache of the cases and what a consumer makes of its events."""

    def __init__(self, c: CaseCache) -> None:
        self.c = c
        self.log: KvEventLog = c.cache.record_events()
        self.consumer = Consumer()

    def __call__(self) -> list:
        events = self.log.take()
        self.consumer.apply(events)
        assert self.consumer.sets == cached(self.c.cache)
        return events


def test_f21_a_split_save_is_told_from_the_front() -> None:
    """P=4, D=32, H=32, write_through: N(16) is being saved when M splits it 8/8."""
    with CaseCache(32, 32) as c:
        told = Told(c)
        with hold(c.cache, "d2h"):
            c.put(N)
            c.put(M)
            assert stored(told(), "host") == []  # in flight is not stored
        assert c.drain(LONG)
        halves = stored(told(), "host")
        assert halves == [tuple(N[:8]), tuple(N[8:]), tuple(M[8:])]
        assert {node.lock_ref for node in c.tree.nodes()} == {0}


def test_f21_a_split_load_is_told_from_the_front() -> None:
    with CaseCache(32, 32) as c:
        c.put_on_host(N)
        told = Told(c)
        assert stored(told(), "host") == [tuple(N)]
        with hold(c.cache, "h2d"):
            load = c.start_load(N)
            c.hit([*N[:8], 9, 9, 9, 9])  # splits at 8
            assert told() == []
        assert c.drain(LONG)
        assert stored(told(), "device") == [tuple(N[:8]), tuple(N[8:])]
        c.release(load)


def test_f50_equal_pages_have_keys_of_their_own() -> None:
    """Token 7, 16 times, P=4: four pages, four keys, a chain."""
    with CaseCache(32, 32) as c:
        told = Told(c)
        c.put([7] * 16)
        (event,) = told()
        assert len(set(event.page_keys)) == 4 and event.parent_key is None


def test_f50_a_split_is_no_event() -> None:
    with CaseCache(32, 32) as c:
        c.put(N)
        assert c.drain(LONG)
        told = Told(c)
        assert len(told()) == 2
        c.hit(N[:8])
        c.hit(N[:4])
        assert len(list(c.tree.nodes())) == 3
        assert told() == []


def test_f50_what_is_inserted_again_is_not_stored_again() -> None:
    with CaseCache(32, 32) as c:
        told = Told(c)
        c.put(N)
        assert c.drain(LONG)
        assert [event.tier for event in told()] == ["device", "host"]
        assert c.put(N).duplicate_tokens == 16
        assert c.drain(LONG)
        assert told() == []
        c.put(M)  # shares 8 tokens: only the others are new
        assert c.drain(LONG)
        assert [event.tokens for event in told()] == [tuple(M[8:])] * 2


def test_f50_a_parent_comes_before_its_children_and_goes_after_them() -> None:
    with CaseCache(32, 32) as c:
        told = Told(c)
        c.put(N)
        c.put(M)
        assert c.drain(LONG)
        events = told()
        first = {event.tier: event for event in reversed(events)}
        for tier in ("device", "host"):
            children = [e for e in events if e.tier == tier and e is not first[tier]]
            assert children[0].parent_key == first[tier].page_keys[1]
        c.reset()
        gone = told()
        assert {event.tier for event in gone} == {"device"}
        assert gone[-1].page_keys == first["device"].page_keys[:2]
        c.evict_host(32)
        gone = [key for event in told() for key in event.page_keys]
        assert len(gone) == 6 and set(gone[-2:]) == set(first["host"].page_keys[:2])


def test_f50_a_load_in_parts_is_told_in_parts() -> None:
    """A load brings 8 tokens of N(16), another one the rest."""
    with CaseCache(32, 32) as c:
        c.put_on_host(N)
        told = Told(c)
        (host,) = told()
        for part in (slice(0, 2), slice(2, 4)):
            load = c.load_back(c.match_prefix(N), max_tokens=8)
            assert c.drain(LONG) and load.error is None
            (event,) = told()
            assert event.page_keys == host.page_keys[part]
            c.release(load)
        assert event.parent_key == host.page_keys[1] and event.tokens == tuple(N[8:])
        c.evict_device(4)
        (gone,) = told()
        assert gone == Removed("device", host.page_keys[3:])


def test_f50_what_a_node_gets_back_goes_on_from_what_it_kept() -> None:
    with CaseCache(32, 32) as c:
        c.put(N)
        assert c.drain(LONG)
        told = Told(c)
        keys = told()[0].page_keys
        c.evict_device(8)
        assert told() == [Removed("device", keys[2:])]
        c.put(N)
        (event,) = told()
        assert (event.page_keys, event.parent_key) == (keys[2:], keys[1])
        assert event.tokens == tuple(N[8:])


def test_f50_a_failed_copy_stores_nothing() -> None:
    with CaseCache(32, 32) as c:
        told = Told(c)
        fail_next(c.cache, "d2h")
        c.put(N)
        assert c.drain(LONG)
        assert stored(told(), "host") == []
        c.put(N)
        assert c.drain(LONG)
        c.evict_device(32)
        told()
        fail_next(c.cache, "h2d")
        load = c.start_load(N)
        assert c.drain(LONG) and load.error is not None
        assert told() == []
        c.release(load)


def test_f50_pages_that_leave_after_their_save_are_told_when_they_have_left() -> None:
    with CaseCache(32, 32, write_policy="write_back") as c:
        told = Told(c)
        c.put(N)
        told()
        with hold(c.cache, "d2h"):
            assert c.evict_device(8) == 8
            assert told() == []  # they go on matching
        assert c.drain(LONG)
        assert [(type(e), e.tier, len(e.page_keys)) for e in told()] == [
            (Stored, "host", 4),
            (Removed, "device", 2),
        ]


@pytest.mark.parametrize("flush", ["clear", "invalidate"])
def test_f50_after_a_flush_no_router_believes_in_what_is_gone(flush: str) -> None:
    with CaseCache(32, 32) as c:
        told = Told(c)
        c.put(N)
        assert c.drain(LONG)
        told()
        with hold(c.cache, "d2h") if flush == "invalidate" else hold(c.cache, "h2d"):
            c.put(M)
            getattr(c, flush)()
            assert told() == [Cleared()]
        assert c.drain(LONG)
        assert told() == []
        c.put(N)
        assert stored(told(), "device") == [tuple(N)]


def test_f50_a_host_copy_that_is_found_wrong_is_removed() -> None:
    with CaseCache(32, 32, verify="all") as c:
        c.put_on_host(N)
        told = Told(c)
        told()
        corrupt(c.cache, int(c.match_prefix(N).host_pages[2]), 1, 5)
        load = c.start_load(N)
        assert c.drain(LONG) and load.error is not None
        (event,) = told()
        assert isinstance(event, Removed) and event.tier == "host" and len(event.page_keys) == 2
        c.release(load)


def test_f50_prompts_under_different_keys_are_different_pages() -> None:
    with CaseCache(32, 32) as c:
        told = Told(c)
        told()
        for key in (None, "a", "b"):
            c.put(N[:8], extra_key=key)
        assert c.drain(LONG)
        events = [event for event in told() if event.tier == "device"]
        assert [event.extra_key for event in events] == [None, "a", "b"]
        assert len({key for event in events for key in event.page_keys}) == 6
