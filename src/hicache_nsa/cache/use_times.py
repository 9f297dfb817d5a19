"""How long ago pages were used last: seconds, where nodes know ticks of their tree's clock only."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from math import frexp, ldexp

from hicache_nsa.histogram import Histogram

STEP = 0.1
"""Seconds between two samples, at least."""
SHARE = 0.01
"""Of its age: what an older one may be off by, once there are too many."""
MOST = 4096
"""Samples, at most."""
AGE_BOUNDS = (1, 3, 10, 30, 60, 300, 900, 3600, 10800, 43200, 86400, 259200)
"""Seconds: of the histograms of ages."""


class UseTimes:
    """Samples of (tick, seconds), so that a tick is told to a tenth of a second, or, where it is
    long ago, to a hundredth of its age. Nodes need no memory for it.

    clock: seconds, never falling. What was there before (a host file's pages) counts as used when
    this was made.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.begin_anew()

    def begin_anew(self) -> None:
        """Ticks begin at 0 again: there is another tree."""
        self._ticks = [0]
        self._times = [self._clock()]

    def note(self, tick: int) -> None:
        """Uses from ``tick`` on are now or later. To be called before the clock gets there."""
        now = self._clock()
        if now - self._times[-1] >= STEP:
            self._ticks.append(tick)
            self._times.append(now)
            if len(self._ticks) > MOST:
                self._thin(now)

    def add_ages(self, ages: Histogram, uses: Sequence[tuple[int, int]]) -> None:
        """Pages are evicted now. uses: of each node the tick of its last use, and how many pages.

        Neighbours are often of one sample: it is looked up once.
        """
        now = self._clock()
        ticks, times = self._ticks, self._times
        if len(uses) == 1:
            tick, pages = uses[0]
            ages.add(now - times[bisect_right(ticks, tick) - 1], pages)
            return
        low, high, age, pages = 0, 0, 0.0, 0
        for tick, count in uses:
            if not low <= tick < high:
                if pages:
                    ages.add(age, pages)
                place = bisect_right(ticks, tick)
                low, pages = ticks[place - 1], 0
                high = ticks[place] if place < len(ticks) else tick + len(uses)
                age = now - times[place - 1]
            pages += count
        if pages:
            ages.add(age, pages)

    def _thin(self, now: float) -> None:
        """Keep the first one of each span of time. A span is STEP, or STEP times a power of two up
        to SHARE of the age: short spans make up long ones, so that errors do not add up.
        """
        ticks, times = self._ticks[:1], self._times[:1]
        for tick, when in zip(self._ticks[1:], self._times[1:], strict=True):
            doublings = max(frexp(SHARE * (now - when) / STEP)[1] - 1, 0)
            span = ldexp(STEP, doublings)
            if when // span != times[-1] // span:
                ticks.append(tick)
                times.append(when)
        self._ticks, self._times = ticks, times
