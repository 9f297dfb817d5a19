"""The joint measurement: GB/s, submit time and what a stream of matrix products feels, at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from hicache_nsa.bench.beside import BackToBack, Burst, WaitForCopy, copies_ahead
from hicache_nsa.bench.report import Row
from hicache_nsa.bench.rig import Copy, Rig, Taken, wait_for
from hicache_nsa.errors import HiCacheError

if TYPE_CHECKING:
    from hicache_nsa.bench.cuda_gemm import GemmStream
    from hicache_nsa.bench.cuda_machine import CudaMachine

_Side = tuple[Callable[[], WaitForCopy], int]  # starts a copy; copies to keep in flight

ATTEMPTS = 4  # at a burst in which copies begin and end, each twice as long as the one before


@dataclass(slots=True)
class JointRounds:
    """What the rounds of one case gave. Ratios are of a product's time beside copies and alone,
    the mean of the bursts right before and behind being "alone". ``products``: of a burst.
    """

    products: int = 0
    slowdowns: list[float] = field(default_factory=list)
    contiguous_slowdowns: list[float] = field(default_factory=list)
    alone: list[list[float]] = field(default_factory=list)
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
        bursts = [seconds for each in self.alone for seconds in each]
        neighbours = [pair for each in self.alone for pair in pairwise(each)]
        return {
            "gemm_slowdown": median(self.slowdowns),
            "gemm_slowdown_spread": [min(self.slowdowns), max(self.slowdowns)],
            "gemm_slowdown_contiguous": median(self.contiguous_slowdowns),
            "gemm_products": self.products,
            "gemm_alone_ms": 1e3 * median(bursts),
            "gemm_alone_spread": [each / median(bursts) - 1 for each in (min(bursts), max(bursts))],
            "gemm_alone_drift": median(abs(after / before - 1) for before, after in neighbours),
            "gemm_copies": [min(self.copies), max(self.copies)],
            "gemm_gbps": median(self.gbps),
            "gemm_share_of_peak": median(self.shares),
            "gemm_submit_us": 1e6 * median(self.submits),
            "gemm_submit_us_worst": 1e6 * max(self.submits),
            "gemm_way": self.taken.names,
        }


@dataclass(frozen=True, slots=True)
class _Round:
    """Bursts of one length: three alone, between them one beside the engine's copies and one beside
    contiguous copies. ``plain_first``: which of the two came first.
    """

    alone: tuple[Burst, ...]
    beside: Burst
    copies: BackToBack
    beside_plain: Burst
    plain: BackToBack
    plain_first: bool

    def shortfall(self) -> str | None:
        """Why it can't be counted, or None."""
        return self.copies.shortfall(self.beside) or self.plain.shortfall(self.beside_plain)

    @property
    def slowdown(self) -> float:
        """Of the engine's copies: by the bursts alone right before and behind."""
        return _slowdown(self.beside, *(self.alone[1:] if self.plain_first else self.alone[:2]))

    @property
    def slowdown_contiguous(self) -> float:
        """Of contiguous copies."""
        return _slowdown(
            self.beside_plain, *(self.alone[:2] if self.plain_first else self.alone[1:])
        )


def _slowdown(beside: Burst, before: Burst, after: Burst) -> float:
    return 2 * beside.product_seconds / (before.product_seconds + after.product_seconds) - 1


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
        """Products alone, beside ``copies``, alone, beside contiguous copies, alone; the two kinds
        of copies change places from round to round.

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
            with rig.counting(into.taken):
                found = self._bursts(
                    into.products,
                    (copy, copies_ahead(copy_seconds)),
                    (contiguous, copies_ahead(contiguous_seconds)),
                    plain_first=len(into.slowdowns) % 2 == 1,
                )
            if found.shortfall() is None:
                break
        else:
            raise HiCacheError(
                f"copies of {nbytes} bytes could not be measured beside matrix products: "
                f"{found.shortfall()}. Alone such a copy takes {1e3 * copy_seconds:.2f} ms. If the "
                "first ended with the products, their streams share a hardware queue: set "
                "CUDA_DEVICE_MAX_CONNECTIONS=32; else give fewer --pages"
            )
        count, seconds = found.copies.inside(found.beside)
        into.alone.append([burst.product_seconds for burst in found.alone])
        into.slowdowns.append(found.slowdown)
        into.contiguous_slowdowns.append(found.slowdown_contiguous)
        into.copies.append(count)
        into.gbps.append(nbytes * count / seconds / 1e9)
        into.shares.append(contiguous_seconds * count / seconds)
        into.submits += submits
        return into

    def _bursts(self, products: int, copies: _Side, plain: _Side, plain_first: bool) -> _Round:
        """The two change places from round to round: a GPU at its power limit is slower in the
        second burst behind a pause than in the next ones, and that must not fall on one of them.
        """
        alone = [self._gemms.alone(products)]
        ran: list[tuple[Burst, BackToBack]] = []
        for side in (plain, copies) if plain_first else (copies, plain):
            ran.append(self._gemms.beside(products, *side))
            alone.append(self._gemms.alone(products))
        first, second = ran
        beside, beside_plain = (second, first) if plain_first else (first, second)
        return _Round(tuple(alone), *beside, *beside_plain, plain_first)
