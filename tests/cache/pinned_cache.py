"""A small cache with a clock that a test moves, and half of each tier for pins."""

from __future__ import annotations

from typing import Any

from small_cache import SmallCache

import hicache_nsa as hc


class Clock:
    """Stands still unless it is told to go on; counts how often it was asked."""

    def __init__(self) -> None:
        self.now, self.asked = 100.0, 0

    def __call__(self) -> float:
        self.asked += 1
        return self.now


class Pinned(SmallCache):
    """With a clock of its own, and a budget of half of each tier."""

    def __init__(self, device_pages: int = 8, host_pages: int = 8, **options: Any) -> None:
        self.time = Clock()
        options = {"pin_share": 0.5, "clock": self.time, **options}
        super().__init__(device_pages, host_pages, **options)

    def pin_now(self, tokens: list[int], seconds: float = 10.0) -> hc.Pin:
        pin: hc.Pin = self.pin(self.match_prefix(tokens, count=False), seconds)
        return pin

    def end_pin(self, pin: hc.Pin) -> None:
        pin.release()
        self.cache.check()
