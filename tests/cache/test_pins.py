"""pin: a lock that ends by itself. Page size 4."""

from __future__ import annotations

import random
import threading
from typing import Any

import numpy as np
import pytest
from engine import PAGE
from pinned_cache import Pinned
from small_cache import LONG, SmallCache

import hicache_nsa as hc
from hicache_nsa import testing
from hicache_nsa._core import TokenSpan

A, B, C = list(range(8)), list(range(100, 108)), list(range(200, 208))
ABOVE = A[:4]
LONGER = [*A, 50, 51, 52, 53]


def test_it_protects_both_tiers_until_its_time_is_over() -> None:
    with Pinned() as c:
        c.put(A)
        c.put(B)
        assert c.drain(LONG)
        pin = c.pin_now(A)
        assert (pin.tokens, pin.device_tokens, pin.host_tokens) == (8, 8, 0)
        assert pin.expires == 110.0 and pin.active
        assert c.pinned == (2, 2) and c.device == (4, 2, 2, 0) and c.host == (4, 2, 2, 0)
        assert c.evict_device(100) == c.evict_host(100) == 8  # B
        c.time.now = 109.9
        assert c.evict_device(100) == c.evict_host(100) == 0 and c.hit(A) == (8, 0)
        c.time.now = 110.0
        assert c.evict_device(100) == 8 and c.hit(A) == (0, 8)
        assert not pin.active and c.pinned == (0, 0) and c.evict_host(100) == 8
        c.end_pin(pin)


def test_a_host_only_prefix_and_part_of_a_node() -> None:
    with Pinned() as c:
        c.put_on_host(A)
        pin = c.pin_now(ABOVE)
        assert (pin.device_tokens, pin.host_tokens) == (0, 4) and c.pinned == (0, 1)
        assert c.evict_host(100) == 4 and c.hit(A) == (0, 4)
        c.end_pin(pin)
        assert c.evict_host(100) == 4


CALLS = {
    "match_prefix": lambda c, x: c.match_prefix(A),
    "load_back": lambda c, x: c.load_back(x["match"]),
    "allocate": lambda c, x: c.allocate(0),
    "insert": lambda c, x: c.insert(B, x["pages"]),
    "lock": lambda c, x: c.lock(x["match"]),
    "pin": lambda c, x: c.pin(x["match"], 1),
    "unlock": lambda c, x: c.unlock(x["handle"]),
    "evict_device": lambda c, x: c.evict_device(0),
    "evict_host": lambda c, x: c.evict_host(0),
    "stats": lambda c, x: c.cache.stats(),
    "poll": lambda c, x: c.poll(0),
    "drain": lambda c, x: c.drain(LONG),
    "active": lambda c, x: x["pin"].active,
}


@pytest.mark.parametrize("acks", ["auto", "poll"])
@pytest.mark.parametrize("name", CALLS)
def test_which_calls_end_it(name: str, acks: str) -> None:
    with Pinned(acks=acks) as c:
        c.put(A)
        c.put(C)
        assert c.drain(LONG)
        match = c.match_prefix(C)
        extras = {"match": match, "handle": c.lock(match), "pages": c.allocate(2)}
        extras["pin"] = c.pin_now(A)
        c.time.now += 10
        CALLS[name](c, extras)
        ended = acks == "auto" or name in ("poll", "drain")
        node = next(node for node in c.tree.nodes() if node.key.numpy()[0] == 0)
        assert node.pin_ref == (0 if ended else 1)
        assert extras["pin"].active is not ended


def test_polled_acks_ask_the_clock_once_a_call() -> None:
    """The ranks' clock may count how often it is asked: no call asks it by chance."""
    with Pinned(acks="poll") as c:
        c.put(A)
        with testing.hold(c.cache, "d2h"):
            c.put(B)
        pin = c.pin_now(A)
        asked = c.time.asked
        for call in (lambda: c.match_prefix(A), c.stats, lambda: c.evict_device(4)):
            call()
        assert pin.active and c.time.asked == asked
        for call in (lambda: c.poll(0), lambda: c.drain(LONG), lambda: c.pin_now(A)):
            call()
            assert c.time.asked == asked + 1
            asked = c.time.asked


def test_it_can_be_released_early_and_again() -> None:
    with Pinned() as c:
        c.put(A)
        assert c.drain(LONG)
        with c.pin_now(A) as pin:
            assert c.pinned == (2, 2) and "8 tokens" in repr(pin)
        assert not pin.active and c.pinned == (0, 0) and c.locks() == {0}
        c.end_pin(pin)
        c.time.now += 100
        c.end_pin(pin)
        assert c.device == (6, 2, 0, 0)


def test_pins_end_in_the_order_of_their_times() -> None:
    with Pinned() as c:
        c.put(A)
        assert c.drain(LONG)
        pins = [c.pin_now(A, seconds) for seconds in (3, 1, 2)]
        assert c.locks() == {3} and c.pinned == (2, 2)
        c.end_pin(pins[2])
        for now, active in ((100.5, [True, True, False]), (101, [True, False, False])):
            c.time.now = now
            assert [pin.active for pin in pins] == active
        assert c.pinned == (2, 2)
        c.time.now = 103
        assert c.pinned == (0, 0) and c.locks() == {0}


def test_released_pins_are_forgotten() -> None:
    with Pinned() as c:
        c.put(A)
        assert c.drain(LONG)
        for _ in range(1000):
            c.cache.pin(c.cache.match_prefix(A), 1e6).release()
        assert len(c.cache._state.pins._heap) <= 128
        c.check()


# -- splits, loads, allocation -------------------------------------------------------------------


def test_a_pinned_node_is_split() -> None:
    with Pinned() as c:
        c.put(A)
        assert c.drain(LONG)
        c.pin_now(A)
        c.put([*ABOVE, 9, 9, 9, 9])
        assert c.drain(LONG) and c.pinned == (2, 2) and c.device == (5, 1, 2, 0)
        assert c.evict_device(100) == 4
        c.time.now += 10
        assert c.pinned == (0, 0) and c.locks() == {0} and c.evict_device(100) == 8


def test_a_pin_outlives_a_cancelled_load_and_a_failed_one() -> None:
    with Pinned() as c:
        c.put_on_host(A)
        pin = c.pin_now(A)
        with testing.hold(c.cache, "h2d"):
            load = c.start(A)
            c.end(load, "cancel")
        assert c.drain(LONG) and c.pinned == (0, 2)
        testing.fail_next(c.cache, "h2d")
        load = c.start(A)
        assert c.drain(LONG)
        c.end(load)
        assert c.pinned == (0, 2) and c.locks() == {1}
        c.end_pin(pin)
        assert c.locks() == {0}


def test_an_allocation_gets_the_pages_of_pins_that_ended() -> None:
    with Pinned(device_pages=4) as c:
        c.put(A)
        assert c.drain(LONG)
        c.pin_now(A)
        with pytest.raises(hc.OutOfPages, match="2 pinned"):
            c.allocate(3)
        c.time.now += 10
        assert len(c.allocate(4)) == 4


def test_a_pin_ends_while_an_allocation_waits_for_a_save() -> None:
    """When the save is in, its pages are locked by somebody; those of the pin make up for it."""
    gate, pages = threading.Event(), []
    with Pinned(device_pages=4) as c, hc.CpuStream() as stream:
        c.put(A)
        assert c.drain(LONG)
        c.pin_now(A)
        own = c.compute(B)
        stream.enqueue(gate.wait, LONG)
        c.insert(B, own, stream=stream)  # its save waits for the stream
        waiter = threading.Thread(target=lambda: pages.append(c.cache.allocate(2)))
        waiter.start()
        waiter.join(0.05)
        assert waiter.is_alive() and not pages  # A is pinned, B is being saved
        handle = c.cache.lock(c.cache.match_prefix(B))
        c.time.now += 10
        gate.set()
        waiter.join(LONG)
        assert len(pages[0]) == 2 and not set(pages[0]) & set(own)
        assert c.hit(A) == (0, 8) and c.hit(B) == (8, 0)
        c.unlock(handle)


# -- flushes, clocks -----------------------------------------------------------------------------


@pytest.mark.parametrize("flush", ["reset", "clear", "invalidate"])
def test_a_flush_makes_pins_void(flush: str) -> None:
    with Pinned() as c:
        c.put(A)
        assert c.drain(LONG)
        old, match = c.pin_now(A, 5), c.match_prefix(A)
        getattr(c, flush)()
        assert not old.active and c.pinned == (0, 0) and c.locks() <= {0}
        with pytest.raises(hc.StaleHandleError):
            c.pin(match, 5)
        if flush != "reset":
            c.put(A)
            assert c.drain(LONG)
        new = c.pin_now(A, 20)
        c.end_pin(old)
        c.time.now += 5  # nor does its time do anything
        assert new.active and c.pinned[1] == 2 and c.locks() == {1}
        c.end_pin(new)
        assert c.pinned == (0, 0) and c.locks() == {0}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "now", None, True])
def test_a_clock_that_gives_no_time_is_named(value: Any) -> None:
    with Pinned() as c:
        c.put(A)
        assert c.drain(LONG)
        match, before = c.match_prefix(A), c.picture()
        c.time.now, good = value, c.time.now
        with pytest.raises((TypeError, ValueError), match="clock"):
            c.pin(match, 5)
        c.time.now = good
        assert c.picture() == before


def test_a_clock_may_give_numpy_numbers_and_go_back() -> None:
    with Pinned() as c:
        c.put(A)
        assert c.drain(LONG)
        c.time.now = np.float32(50)
        pin = c.pin_now(A, np.int64(5))
        c.time.now = 10
        assert pin.active and pin.expires == 55
        c.time.now = np.int64(55)
        assert not pin.active


def pages_below(c: SmallCache, prefixes: list[list[int]]) -> tuple[int, int]:
    """Device and host pages that the prefixes have, each once."""
    found: tuple[set[int], set[int]] = set(), set()
    for tokens in prefixes:
        path, end = c.tree.find(TokenSpan(np.array(tokens, dtype=np.int64)))
        for node in path:
            pages = (min(node.end, end) - node.start) // PAGE
            found[0].update(node.device_pages[:pages].tolist())
            found[1].update(node.host_pages[:pages].tolist())
    return len(found[0]), len(found[1])


@pytest.mark.parametrize("acks", ["auto", "poll"])
@pytest.mark.parametrize("seed", range(10))
def test_random_pins_against_a_list_of_them(seed: int, acks: str) -> None:
    """The model: which prefixes are pinned. They stay, and their pages are what pins hold."""
    rng = random.Random(seed)
    prompts = [[*A, *[50 + i % 2] * 8, *[60 + i] * 4] for i in range(4)]
    with Pinned(24, 24, acks=acks) as c:
        c.put_on_host(*prompts)
        pins: list[tuple[hc.Pin, list[int]]] = []
        for _ in range(150):
            what = rng.randrange(7)
            tokens = rng.choice(prompts)[: PAGE * rng.randrange(1, 6)]
            if what <= 1:
                match = c.match_prefix(tokens)
                before = c.pinned
                try:
                    pins.append((c.pin(match, rng.randrange(1, 9)), tokens[: match.tokens]))
                except hc.OutOfPages:
                    assert c.pinned == before
                assert c.pinned[1] <= 12
            elif what == 2 and pins:
                c.end_pin(pins.pop(rng.randrange(len(pins)))[0])
            elif what == 3:
                c.time.now += rng.randrange(3)
                c.poll()
                pins = [(pin, kept) for pin, kept in pins if pin.expires > c.time.now]
            elif what == 4:
                c.evict_host(rng.randrange(40))
            elif what == 5:
                load = c.load_back(c.match_prefix(tokens), max_tokens=rng.randrange(1, 20))
                if load is not None:
                    assert load.wait(LONG)
                    c.end(load)
                    c.evict_device(rng.randrange(40))
            elif not c.device[3]:
                c.put_on_host(*prompts)
            for pin, kept in pins:
                assert pin.active and sum(c.hit(kept)) == len(kept)
            assert c.pinned == pages_below(c, [kept for _, kept in pins])
        for pin, _ in pins:
            c.end_pin(pin)
        assert c.drain(LONG) and c.pinned == (0, 0) and c.locks() <= {0}
