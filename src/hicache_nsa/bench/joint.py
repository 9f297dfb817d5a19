"""The joint measurement: GB/s, submit time and what a stream of matrix products feels, at once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

from hicache_nsa.bench.beside import BackToBack, Burst, WaitForCopy, copies_ahead
from hicache_nsa.bench.report import Row
from hicache_nsa.bench.rig import Copy, Rig, Taken, wait_for
from hicache_nsa.errors import HiCacheError

if TYPE_CHECKING:
    from hicache_nsa.bench.cuda_gemm import GemmStream
    from hicache_nsa.bench.cuda_machine import CudaMachine

ATTEMPTS = 4  # at a burst in which copies begin and end, each twice as long as the one before


@dataclass(slots=True)
class JointRounds:
    """What the rounds of one case gave. Ratios are of a product's time beside copies and alone,
    the mean of the bursts before and after being "alone". ``products``: of a burst.
    """

    products: int = 0
    slowdowns: list[float] = field(default_factory=list)
    contiguous_slowdowns: list[float] = field(default_factory=list)
    alone: list[tuple[float, float]] = field(default_factory=list)
    copies: list[int] = field(default_factory=list)
    gbps: list[float] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)
    submits: list[float] = field(default_factory=list)
    taken: Taken = field(default_factory=Taken)

    def row(self) -> Row:
        """The part of a row that begins with ``gemm_``: medians, and spreads as [least, most].

        ``gemm_gbps``: of the copies that began and ended while products ran, in each round
        ``gemm_copies`` of them. ``gemm_alone_spread``: of the bursts alone, by their median.
        ``gemm_alone_drift``: by how much a burst alone differs from the next one alone, as
        ``gemm_slowdown`` would see it.
        """
        bursts = [seconds for pair in self.alone for seconds in pair]
        return {
            "gemm_slowdown": median(self.slowdowns),
            "gemm_slowdown_spread": [min(self.slowdowns), max(self.slowdowns)],
            "gemm_slowdown_contiguous": median(self.contiguous_slowdowns),
            "gemm_products": self.products,
            "gemm_alone_ms": 1e3 * median(bursts),
            "gemm_alone_spread": [each / median(bursts) - 1 for each in (min(bursts), max(bursts))],
            "gemm_alone_drift": median(abs(after / before - 1) for before, after in self.alone),
            "gemm_copies": [min(self.copies), max(self.copies)],
            "gemm_gbps": median(self.gbps),
            "gemm_share_of_peak": median(self.shares),
            "gemm_submit_us": 1e6 * median(self.submits),
            "gemm_submit_us_worst": 1e6 * max(self.submits),
            "gemm_way": self.taken.names,
        }


@dataclass(frozen=True, slots=True)
class _Round:
    """Bursts of one length: alone, beside the engine's copies, alone, beside contiguous copies."""

    first: Burst
    beside: Burst
    copies: BackToBack
    second: Burst
    beside_plain: Burst
    plain: BackToBack

    def shortfall(self) -> str | None:
        """Why it can't be counted, or None."""
        return self.copies.shortfall(self.beside) or self.plain.shortfall(self.beside_plain)


class Joint:
    """A stream of bf16 matrix products beside the copies of a bench on ``machine``."""

    def __init__(self, machine: CudaMachine, gemms: GemmStream) -> None:
        self._machine = machine
        self._gemms = gemms

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

        Raises:
            HiCacheError: no copy begins and ends beside even the longest burst, with the times.
        """
        into = JointRounds() if before is None else before
        nbytes = sum(len(copy.host_pages) for copy in copies) * rig.format.page_bytes
        submits: list[float] = []

        def copy() -> WaitForCopy:
            started = time.perf_counter()
            tickets = rig.submit(copies, self._machine.stream)
            submits.append(time.perf_counter() - started)
            return partial(wait_for, tickets)

        def contiguous() -> WaitForCopy:
            event = self._machine.queue_contiguous(direction, nbytes // len(copies))
            return partial(event.synchronize)

        into.products = into.products or self._gemms.burst_length(copy_seconds)
        self._gemms.warm_up()
        for attempt in range(ATTEMPTS):
            into.products *= 2 if attempt else 1
            submits.clear()
            first = self._gemms.alone(into.products)
            with rig.counting(into.taken):
                ran = self._gemms.beside(into.products, copy, copies_ahead(copy_seconds))
            second = self._gemms.alone(into.products)
            plain = self._gemms.beside(into.products, contiguous, copies_ahead(contiguous_seconds))
            found = _Round(first, *ran, second, *plain)
            if found.shortfall() is None:
                break
        else:
            raise HiCacheError(
                f"copies of {nbytes} bytes could not be measured beside matrix products: "
                f"{found.shortfall()}. Alone such a copy takes {1e3 * copy_seconds:.2f} ms. If the "
                "first ended with the products, their streams share a hardware queue: set "
                "CUDA_DEVICE_MAX_CONNECTIONS=32; else give fewer --pages"
            )
        alone = (first.product_seconds, second.product_seconds)
        count, seconds = found.copies.inside(found.beside)
        into.alone.append(alone)
        into.slowdowns.append(2 * found.beside.product_seconds / sum(alone) - 1)
        into.contiguous_slowdowns.append(2 * found.beside_plain.product_seconds / sum(alone) - 1)
        into.copies.append(count)
        into.gbps.append(nbytes * count / seconds / 1e9)
        into.shares.append(contiguous_seconds * count / seconds)
        into.submits += submits
        return into
