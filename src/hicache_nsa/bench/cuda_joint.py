"""The joint measurement: GB/s, submit time and what a stream of matrix products feels, at once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median

from hicache_nsa.bench.cuda_gemm import GemmStream, WaitForCopy
from hicache_nsa.bench.cuda_machine import CudaMachine
from hicache_nsa.bench.report import Row
from hicache_nsa.bench.rig import Copy, Rig, Taken, wait_for


@dataclass(slots=True)
class JointRounds:
    """What the rounds of one case gave. Ratios are of a product's time beside copies and alone,
    the mean of the bursts before and after being "alone".
    """

    slowdowns: list[float] = field(default_factory=list)
    contiguous_slowdowns: list[float] = field(default_factory=list)
    alone: list[tuple[float, float]] = field(default_factory=list)
    gbps: list[float] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)
    submits: list[float] = field(default_factory=list)
    taken: Taken = field(default_factory=Taken)

    def row(self) -> Row:
        """The part of a row that begins with ``gemm_``: medians, and spreads as [least, most].

        ``gemm_alone_spread``: of the bursts alone, by their median. ``gemm_alone_drift``: by how
        much a burst alone differs from the next one alone, as ``gemm_slowdown`` would see it.
        """
        bursts = [seconds for pair in self.alone for seconds in pair]
        return {
            "gemm_slowdown": median(self.slowdowns),
            "gemm_slowdown_spread": [min(self.slowdowns), max(self.slowdowns)],
            "gemm_slowdown_contiguous": median(self.contiguous_slowdowns),
            "gemm_alone_ms": 1e3 * median(bursts),
            "gemm_alone_spread": [each / median(bursts) - 1 for each in (min(bursts), max(bursts))],
            "gemm_alone_drift": median(abs(after / before - 1) for before, after in self.alone),
            "gemm_gbps": median(self.gbps),
            "gemm_share_of_peak": median(self.shares),
            "gemm_submit_us": 1e6 * median(self.submits),
            "gemm_submit_us_worst": 1e6 * max(self.submits),
            "gemm_way": self.taken.names,
        }


class Joint:
    """A warmed-up stream of bf16 matrix products on ``machine``."""

    def __init__(self, machine: CudaMachine) -> None:
        self._machine = machine
        self._gemms = GemmStream(machine.device)

    def round(
        self,
        rig: Rig,
        copies: Sequence[Copy],
        direction: str,
        contiguous_seconds: float,
        copy_seconds: float,
        before: JointRounds | None,
    ) -> JointRounds:
        """Products alone, beside ``copies``, alone, and beside contiguous copies.

        contiguous_seconds, copy_seconds: of this round, host clock, nothing beside them. before:
        the rounds before this one, which are returned with this one added.
        """
        into = JointRounds() if before is None else before
        submits: list[float] = []
        nbytes = sum(len(copy.host_pages) for copy in copies) * rig.format.page_bytes
        count = self._gemms.burst_length(copy_seconds)

        def copy() -> WaitForCopy:
            started = time.perf_counter()
            tickets = rig.submit(copies, self._machine.stream)
            submits.append(time.perf_counter() - started)
            return partial(wait_for, tickets)

        def contiguous() -> WaitForCopy:
            event = self._machine.queue_contiguous(direction, nbytes // len(copies))
            return lambda: event.synchronize()

        first = self._gemms.alone(count)
        with rig.counting(into.taken):
            beside = self._gemms.beside(count, copy, copy_seconds)
        second = self._gemms.alone(count)
        plain = self._gemms.beside(count, contiguous, contiguous_seconds)
        alone = (first + second) / 2
        into.alone.append((first, second))
        into.slowdowns.append(beside.gemm_seconds / alone - 1)
        into.contiguous_slowdowns.append(plain.gemm_seconds / alone - 1)
        if beside.copies:
            speed = nbytes * beside.copies / beside.copy_seconds
            into.gbps.append(speed / 1e9)
            into.shares.append(speed * contiguous_seconds / nbytes)
        into.submits += submits
        return into
