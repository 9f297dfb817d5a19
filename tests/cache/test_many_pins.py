"""What pins cost when there are many of them."""

from __future__ import annotations

from hicache_nsa.cache import pins as pins_module
from hicache_nsa.cache.handles import Epoch
from hicache_nsa.cache.pins import FEW, Pin, Pins

MANY = 100 * FEW


def pin(epoch: Epoch, expires: float) -> Pin:
    return Pin(None, epoch, 0, 0, expires, None)


def test_the_heap_is_rebuilt_a_few_times_only(monkeypatch):
    rebuilt = []
    heapify = pins_module.heapq.heapify
    monkeypatch.setattr(
        pins_module.heapq, "heapify", lambda heap: (rebuilt.append(len(heap)), heapify(heap))
    )
    pins, epoch = Pins(0.5, lambda: 0.0), Epoch("cache")
    for number in range(MANY):
        pins.add(pin(epoch, float(MANY - number)))
    assert sum(rebuilt) <= 2 * MANY
    assert [entry.expires for entry in pins.expired(10.0)] == [float(n) for n in range(1, 11)]


def test_pins_that_are_over_are_forgotten():
    pins, epoch = Pins(0.5, lambda: 0.0), Epoch("cache")
    kept = pin(epoch, 1.0)
    pins.add(kept)
    for number in range(MANY):
        one = pin(epoch, 1e9 + number)
        pins.add(one)
        one._ended = True
    assert len(pins._heap) <= 2 * FEW
    assert pins.held(epoch) == [kept]
