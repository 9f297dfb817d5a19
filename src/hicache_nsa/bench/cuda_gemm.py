"""A stream of large matrix products, alone and beside copies: what the model feels of them."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

SIZE = 8192
WARM_UP = 300  # products, about half a second: the clocks settle
FEWEST = 64  # products in a burst
COPIES = 5  # copies that a burst is at least as long as
AHEAD_SECONDS = 0.005  # copies that are in flight ahead last at least so long
MOST_AHEAD = 16

WaitForCopy = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Beside:
    """One burst beside copies. ``copies`` ended during the burst, in ``copy_seconds``, the end of
    the copy before them being the start.
    """

    gemm_seconds: float
    copies: int
    copy_seconds: float


class GemmStream:
    """bf16 products of SIZE x SIZE matrices on a stream of their own; times are a product's."""

    def __init__(self, device: str) -> None:
        self._stream = torch.cuda.Stream(device)
        left, right = (torch.randn(SIZE, SIZE, device=device).to(torch.bfloat16) for _ in range(2))
        self._operands = left, right
        self._product = torch.empty_like(left)
        torch.cuda.synchronize()
        self._seconds = self.alone(WARM_UP)

    def burst_length(self, copy_seconds: float) -> int:
        """Products of a burst during which COPIES copies end."""
        return max(FEWEST, math.ceil(COPIES * copy_seconds / self._seconds))

    def alone(self, count: int) -> float:
        """Seconds a product while nothing else runs."""
        torch.cuda.synchronize()
        begin, end = self._queue(count)
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1e3 / count

    def beside(self, count: int, start: Callable[[], WaitForCopy], copy_seconds: float) -> Beside:
        """A burst all of which runs beside copies.

        ``start`` submits a copy and returns how to wait for it. Several are in flight at any time,
        the first product is queued when the first copy has ended and the next one runs, and copies
        are submitted until the last product has ended.
        """
        ahead = min(MOST_AHEAD, 3 + math.ceil(AHEAD_SECONDS / copy_seconds))
        torch.cuda.synchronize()
        waiting = deque(start() for _ in range(ahead))
        waiting.popleft()()
        first = last = time.perf_counter()
        waiting.append(start())
        begin, end = self._queue(count)
        copies = 0
        while not end.query():
            waiting.popleft()()
            now = time.perf_counter()
            if not end.query():
                copies, last = copies + 1, now
            waiting.append(start())
        for wait in waiting:
            wait()
        return Beside(float(begin.elapsed_time(end)) / 1e3 / count, copies, last - first)

    def _queue(self, count: int) -> tuple[Any, Any]:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with torch.cuda.stream(self._stream):
            begin.record()
            for _ in range(count):
                torch.mm(*self._operands, out=self._product)
            end.record()
        return begin, end
