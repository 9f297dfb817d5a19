"""pin: the share of each tier that all pins have together. Page size 4."""

from __future__ import annotations

import pytest
from engine import PAGE
from pinned_cache import Pinned
from small_cache import LONG, SmallCache

import hicache_nsa as hc
from hicache_nsa import testing

A, B = list(range(8)), list(range(100, 108))
ABOVE = A[:4]
LONGER = [*A, 50, 51, 52, 53]


def test_a_pin_that_exceeds_the_budget_changes_nothing() -> None:
    with Pinned(pin_share=0.25, host_pages=16) as c:
        c.put(A)
        c.put(B)
        assert c.drain(LONG)
        c.pin_now(B[:4])
        match, before = c.match_prefix(A, count=False), c.picture()
        words = (
            r"2 device pages, 2 of them not pinned yet: pins hold 1 and may hold 2 together "
            r"\(pin_share=0.25 of 8\).*the next one to end \(in 10 s\)"
        )
        with pytest.raises(hc.OutOfPages, match=words):
            c.pin(match, 5)
        part = c.match_prefix(LONGER, count=False)
        with pytest.raises(hc.OutOfPages):
            c.pin(part, 5)
        assert c.picture() == before  # nor was a node split
        c.time.now += 10
        assert c.pin(match, 5).tokens == 8


def test_each_tier_has_its_own_budget() -> None:
    with Pinned(device_pages=16, host_pages=4) as c:
        c.put_on_host(A)
        c.put(B)
        assert c.drain(LONG) and c.pin_now(A).tokens == 8 and c.pinned == (0, 2)
        with pytest.raises(hc.OutOfPages, match="2 host pages, 2 of them"):
            c.pin_now(B)
        c.evict_host(100)
        assert c.pin_now(B).device_tokens == 8 and c.pinned == (2, 2)


def test_a_page_under_several_pins_counts_once() -> None:
    with Pinned(device_pages=6, host_pages=8) as c:
        c.put(LONGER)
        assert c.drain(LONG)
        whole = c.pin_now(LONGER, 5)
        assert c.pinned == (3, 3)
        above = c.pin_now(A, 20)  # the budget of 3 is used up: nothing new
        renewed = c.pin_now(LONGER, 10)
        assert c.pinned == (3, 3)
        c.end_pin(whole)
        assert c.pinned == (3, 3)
        c.time.now += 10
        assert c.pinned == (2, 2) and not renewed.active and above.active
        c.end_pin(above)
        assert c.pinned == (0, 0) and c.locks() == {0}


def test_without_a_share_only_nothing_can_be_pinned() -> None:
    with Pinned(pin_share=0) as c:
        c.put(A)
        with pytest.raises(hc.OutOfPages, match="may hold 0"):
            c.pin_now(A)
        empty = c.pin_now(B)
        assert empty.tokens == 0 and empty.active
        c.time.now += 10
        assert not empty.active


def test_the_default_share_is_a_quarter() -> None:
    with SmallCache(8, 8) as c:
        c.put(LONGER)
        assert c.drain(LONG)
        with pytest.raises(hc.OutOfPages, match=r"may hold 2 together \(pin_share=0.25 of 8\)"):
            c.pin(c.match_prefix(LONGER), 60)
        with c.pin(c.match_prefix(A), 60) as pin:
            assert pin.active


@pytest.mark.parametrize(("share", "pages", "budget"), [(0.29, 100, 29), (0.3, 10, 3), (0.9, 9, 8)])
def test_the_share_in_whole_pages(share: float, pages: int, budget: int) -> None:
    with Pinned(device_pages=pages, host_pages=0, pin_share=share) as c:
        c.put(range(pages * PAGE))
        with pytest.raises(hc.OutOfPages, match=f"may hold {budget} together"):
            c.pin_now(list(range((budget + 1) * PAGE)))
        assert c.pin_now(list(range(budget * PAGE))).tokens == budget * PAGE


def test_what_comes_to_a_pinned_prefix_later_counts_and_bars_the_next_pin() -> None:
    with Pinned(device_pages=4, host_pages=16) as c:
        c.put_on_host(LONGER)
        pin = c.pin_now(LONGER)
        assert c.pinned == (0, 3)
        load = c.start(LONGER)
        assert load.wait(LONG) and c.poll() == 1
        c.end(load)
        assert c.pinned == (3, 3) and c.device == (1, 0, 3, 0)  # the share is 2
        with pytest.raises(hc.OutOfPages, match=r"0 of them not pinned yet: pins hold 3 and may"):
            c.pin_now(ABOVE)  # so that nobody can renew what exceeds the share
        with pytest.raises(hc.OutOfPages, match="3 pinned"):
            c.allocate(2)
        c.time.now = pin.expires
        assert len(c.allocate(4)) == 4


def test_a_save_that_lands_under_a_pin_counts() -> None:
    with Pinned() as c:
        with testing.hold(c.cache, "d2h"):
            c.put(A)
            pin = c.pin_now(A)
            assert c.pinned == (2, 0)
        assert c.drain(LONG) and c.pinned == (2, 2)
        c.end_pin(pin)
        assert c.pinned == (0, 0) and c.locks() == {0}
