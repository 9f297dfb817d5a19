"""Copies that run back to back beside a burst of products: which of them count, by times alone.

All times are seconds on the host's clock.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

AHEAD_SECONDS = 0.003  # copies in flight last at least so long: the host may be late by as much
FEWEST_AHEAD = 2
MOST_AHEAD = 8

WaitForCopy = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Burst:
    """``count`` products that ran one after the other between ``begin`` and ``end``."""

    count: int
    begin: float
    end: float

    @property
    def product_seconds(self) -> float:
        """Seconds a product."""
        return (self.end - self.begin) / self.count


@dataclass(frozen=True, slots=True)
class BackToBack:
    """Copies of which the next one is in flight whenever one ends, so that the link never rests.

    ``submitted``: when the first ones were all in flight. ``ends``: when each ended, rising.
    """

    submitted: float
    ends: Sequence[float]

    def inside(self, burst: Burst) -> tuple[int, float]:
        """Copies that ran while products ran, from their beginning to their end, and the seconds
        that these took. A copy begins when the one before it ends.
        """
        ends = [end for end in self.ends if burst.begin <= end <= burst.end]
        return (len(ends) - 1, ends[-1] - ends[0]) if ends else (0, 0.0)

    def shortfall(self, burst: Burst) -> str | None:
        """Why this says nothing of copies beside ``burst``, with the numbers; None if it does."""
        ran = f"{burst.count} products ran for {1e3 * (burst.end - burst.begin):.2f} ms"
        if self.submitted > burst.begin:
            late = 1e3 * (self.submitted - burst.begin)
            return f"{ran}, and began {late:.2f} ms before the copies were in flight"
        if self.ends[-1] < burst.end:
            early = 1e3 * (burst.end - self.ends[-1])
            return f"{ran}, and the last copy ended {early:.2f} ms before them"
        if self.inside(burst)[0] < 1:
            last, ends = self.submitted, []
            for end in self.ends:
                ends.append(f"{1e3 * (end - last):.2f}")
                last = end
            return f"{ran}, and no copy began and ended meanwhile; they took {', '.join(ends)} ms"
        return None


def copies_ahead(copy_seconds: float) -> int:
    """Copies to keep in flight: two, or more where they are short."""
    return min(MOST_AHEAD, max(FEWEST_AHEAD, 1 + math.ceil(AHEAD_SECONDS / copy_seconds)))


def back_to_back(
    start: Callable[[], WaitForCopy], ahead: int, over: Callable[[], bool]
) -> BackToBack:
    """Keep ``ahead`` copies in flight until ``over``, then wait for those that still are.

    ``start`` submits a copy and returns how to wait for it. ``over`` is asked after each copy.
    """
    waiting = deque(start() for _ in range(ahead))
    submitted = time.perf_counter()
    ends: list[float] = []
    while waiting:
        waiting.popleft()()
        ends.append(time.perf_counter())
        if not over():
            waiting.append(start())
    return BackToBack(submitted, ends)
