"""F48: pins have a budget and end on time, in every call. Page size 4."""

from __future__ import annotations

import pytest
from case_cache import LONG, CaseCache

import hicache_nsa as hc

LEAVES = [list(range(100 * i, 100 * i + 4)) for i in range(8)]


class Time:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_f48_pins_stop_at_their_budget_and_end_on_time():
    """H=32, host full of host-only leaves of 4, budget 50 %: of 6 pins for 1 s, 4 are granted."""
    time = Time()
    with CaseCache(64, 32, pin_share=0.5, clock=time) as c:
        c.put_on_host(*LEAVES)
        pins = []
        for leaf in LEAVES[:6]:
            try:
                pins.append(c.pin(c.match_prefix(leaf), 1.0))
            except hc.OutOfPages as refused:
                assert "pins hold 4 and may hold 4 together" in str(refused)
        assert sum(pin.tokens for pin in pins) == 16
        assert c.evict_host(32) == 16
        time.now = 0.5
        renewed = c.pin(c.match_prefix(LEAVES[0]), 1.0)  # a use that renews costs nothing new
        time.now = 1.0
        assert c.evict_host(32) == 12
        assert [pin.active for pin in pins] == [False] * 4 and renewed.active
        time.now = 1.5
        assert c.evict_host(32) == 4 and c.host == (32, 0, 0, 0)


@pytest.mark.parametrize("acks", ["auto", "poll"])
def test_f48_pins_never_starve_an_allocation_for_good(acks):
    """Somebody pins all that may be pinned, again and again: the rest can always be had."""
    time = Time()
    with CaseCache(32, 64, pin_share=0.5, clock=time, acks=acks) as c:
        for leaf in LEAVES:
            c.put(leaf)
        assert c.drain(LONG)
        for leaf in LEAVES * 3:
            time.now += 0.5
            c.poll()
            match = c.match_prefix(leaf)
            if match.tokens:
                try:
                    c.pin(match, 1.5)
                except hc.OutOfPages:
                    assert c.stats().device.pinned_pages == 4
            pages = c.allocate(4)
            c.free(pages)
        time.now += 1.5
        c.poll()
        c.free(c.allocate(8))


def test_f48_a_flush_ends_pins_and_keeps_host_copies():
    with CaseCache(32, 32, pin_share=0.5) as c:
        c.put(LEAVES[0])
        assert c.drain(LONG)
        pin = c.pin(c.match_prefix(LEAVES[0]), 1000.0)
        c.reset()
        assert not pin.active and c.hit(LEAVES[0]) == (0, 4)
        assert c.evict_host(4) == 4
        pin.release()
