"""Pins: locks that end by themselves, and how many pages they may hold together."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from hicache_nsa.cache.handles import Epoch
from hicache_nsa.tree import Node

if TYPE_CHECKING:
    from types import TracebackType

    from hicache_nsa.cache.ends import Ends

MOST_PINNED = 0.9
FEW = 64
"""Pins remembered without a look at whether they are over."""


class Pin:
    """A cached prefix that is protected until a given time. ``HiCache.pin`` makes them.

    device_tokens, host_tokens: what was still cached and is protected; tokens: both together.
    expires: when it ends, in seconds of the cache's clock.
    """

    __slots__ = ("_ended", "_ends", "_epoch", "_node", "device_tokens", "expires", "host_tokens")

    def __init__(
        self,
        node: Node | None,
        epoch: Epoch,
        device_tokens: int,
        host_tokens: int,
        expires: float,
        ends: Ends,
    ) -> None:
        self.device_tokens = device_tokens
        self.host_tokens = host_tokens
        self.expires = expires
        self._node = node
        self._epoch = epoch
        self._ends = ends
        self._ended = False

    @property
    def tokens(self) -> int:
        """Protected tokens in device and host tier together."""
        return self.device_tokens + self.host_tokens

    @property
    def active(self) -> bool:
        """Whether it still protects. With ``acks="poll"`` a pin ends in ``poll()``, not before."""
        return self._ends.pin_is_active(self)

    def release(self) -> None:
        """End it now. Idempotent; a no-op once its time is over and after a flush."""
        self._ends.end_pin(self)

    def __repr__(self) -> str:
        state = "released" if self._ended else "held"
        return f"Pin({self.tokens} tokens until {self.expires}, {state})"

    def __enter__(self) -> Pin:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


class Pins:
    """The pins of one cache in the order in which they end.

    share: of a tier's pages, what pins may hold together. clock: gives the time in seconds.
    """

    def __init__(self, share: float, clock: Callable[[], float]) -> None:
        self.share = share
        self.clock = clock
        self._heap: list[tuple[float, int, Pin]] = []
        self._number = 0
        self._most = FEW

    def __bool__(self) -> bool:
        return bool(self._heap)

    def now(self) -> float:
        """The time, as the clock has it."""
        return _seconds(self.clock(), "what clock() returned")

    def budget(self, total_pages: int) -> int:
        """Pages of a tier that pins may hold together."""
        return int(self.share * total_pages + 1e-9)  # 0.29 of 100 pages are 29

    def add(self, pin: Pin) -> None:
        """Remember a pin. Those that are over are forgotten each time the number of all has
        doubled: O(log n) a pin.
        """
        if len(self._heap) >= self._most:
            self._heap = [entry for entry in self._heap if not entry[2]._ended]
            heapq.heapify(self._heap)
            self._most = max(2 * len(self._heap), FEW)
        self._number += 1
        heapq.heappush(self._heap, (pin.expires, self._number, pin))

    def expired(self, now: float) -> Iterator[Pin]:
        """Take out the pins whose time is over, in the order in which they ended."""
        while self._heap and self._heap[0][0] <= now:
            yield heapq.heappop(self._heap)[2]

    def held(self, epoch: Epoch) -> list[Pin]:
        """The pins that protect something in ``epoch``, in no order."""
        return [pin for _, _, pin in self._heap if not pin._ended and pin._epoch is epoch]


def pin_seconds(value: Any) -> float:
    """How long a pin lasts; ``TypeError`` or ``ValueError`` unless positive and finite."""
    seconds = _seconds(value, "seconds")
    if seconds <= 0:
        raise ValueError(f"seconds={seconds} must be more than 0: a pin ends by itself")
    return seconds


def pin_share_of(value: Any) -> float:
    """``pin_share`` as a float in 0..MOST_PINNED."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"pin_share must be a share such as 0.25, got {type(value).__name__}")
    if not 0 <= value <= MOST_PINNED:
        raise ValueError(
            f"pin_share={value} must be between 0 and {MOST_PINNED}, a share of the pages"
        )
    return float(value)


def pin_clock(value: Any) -> Callable[[], float]:
    """``clock`` if it can be called."""
    if not callable(value):
        raise TypeError(f"clock must be a callable that gives seconds, got {type(value).__name__}")
    clock: Callable[[], float] = value
    return clock


def _seconds(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"{name} must be a number of seconds, got {type(value).__name__}")
    try:
        seconds = float(value)
    except OverflowError:
        raise ValueError(f"{name} must be finite, got an int beyond a float") from None
    if not math.isfinite(seconds):
        raise ValueError(f"{name} must be finite, got {seconds}")
    return seconds
