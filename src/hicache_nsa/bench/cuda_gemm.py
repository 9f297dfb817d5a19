"""A stream of large matrix products on a GPU, alone and beside copies: what the model feels."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from hicache_nsa.bench.beside import BackToBack, Burst, WaitForCopy, back_to_back
from hicache_nsa.bench.cuda_machine import CudaMachine

SIZE = 8192  # rows of the matrices: about 1.5 ms a product on an H200
WARM_UP_SECONDS = 1.0  # of products: until the GPU is at its power limit and the clocks settle
PAUSE_SECONDS = 0.02  # before each burst; copies beside it begin meanwhile
FEWEST = 192  # products in a burst, 0.3 s: from one to the next the clock moves by per cents
COPIES = 2  # whole ones that a burst has room for


@dataclass(frozen=True, slots=True)
class Queued:
    """A burst on its way. ``mark``: an event that had just happened at ``marked`` (host clock)."""

    count: int
    mark: Any
    marked: float
    begin: Any
    end: Any

    def over(self) -> bool:
        """Whether the last product has ended."""
        return bool(self.end.query())

    def burst(self) -> Burst:
        """When it ran; waits for its end."""
        self.end.synchronize()
        begin, end = (self.mark.elapsed_time(event) / 1e3 for event in (self.begin, self.end))
        return Burst(self.count, self.marked + begin, self.marked + end)


class GemmStream:
    """bf16 products of SIZE x SIZE matrices on a stream of their own."""

    def __init__(self, machine: CudaMachine) -> None:
        self._machine = machine
        self._stream = torch.cuda.Stream(machine.device)
        left, right = (
            torch.randn(SIZE, SIZE, device=machine.device).to(torch.bfloat16) for _ in range(2)
        )
        self._operands = left, right
        self._product = torch.empty_like(left)
        self.warm_up()
        self._seconds = self.alone(FEWEST).product_seconds

    def warm_up(self) -> None:
        """Products for WARM_UP_SECONDS."""
        torch.cuda.synchronize()
        started = time.perf_counter()
        while time.perf_counter() - started < WARM_UP_SECONDS:
            self._multiply(FEWEST)
            self._stream.synchronize()

    def burst_length(self, copy_seconds: float) -> int:
        """Products during which COPIES copies that take so long begin and end."""
        return max(FEWEST, math.ceil((COPIES + 1) * copy_seconds / self._seconds))

    def alone(self, count: int) -> Burst:
        """A burst while nothing else runs."""
        return self._queue(count).burst()

    def beside(
        self, count: int, start: Callable[[], WaitForCopy], ahead: int
    ) -> tuple[Burst, BackToBack]:
        """A burst beside copies, which run back to back from the pause before it until its end.

        All products are queued before the first copy, so that launching them is no part of it.
        """
        queued = self._queue(count)
        copies = back_to_back(start, ahead, queued.over)
        return queued.burst(), copies

    def _queue(self, count: int) -> Queued:
        """On an idle device, behind a spin of PAUSE_SECONDS by one thread."""
        mark, begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(3))
        torch.cuda.synchronize()
        mark.record(self._stream)
        mark.synchronize()
        marked = time.perf_counter()
        self._machine.spin(PAUSE_SECONDS, self._stream)
        begin.record(self._stream)
        self._multiply(count)
        end.record(self._stream)
        return Queued(count, mark, marked, begin, end)

    def _multiply(self, count: int) -> None:
        with torch.cuda.stream(self._stream):
            for _ in range(count):
                torch.mm(*self._operands, out=self._product)
