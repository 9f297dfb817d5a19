"""``hicache bench overlap``: one load while a stream computes layer by layer behind it.

Before each layer the stream waits for it, then computes for ``ratio`` times the time that the copy
takes a layer. Every round times the copy alone, the computing alone and both together, in turn.
``over`` is together / (max(copy, computing) + one layer), one layer being a layer of the shorter of
the two: the first has to be there before the computing begins, the last is computed behind it.

host clock (``seconds_median`` is of both together): from before the load is submitted on an idle
device until the last layer is computed. device clock (``device_...``; None on the CPU): between two
events on a stream that is still busy when all of it is queued.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from hicache_nsa.bench.bench import Bench
from hicache_nsa.bench.machine import Machine, Queue
from hicache_nsa.bench.page_runs import pages_in_runs
from hicache_nsa.bench.recorded import write_recorded_load
from hicache_nsa.bench.report import Row
from hicache_nsa.bench.rig import Copy, Rig, Taken, wait_for
from hicache_nsa.bench.settings import OverlapSettings
from hicache_nsa.bench.transfer_cases import (
    DEVICE_SEED,
    HOST_SEED,
    check_pool,
    matching_ids,
    runs_name,
)
from hicache_nsa.transfer import H2D, Ticket

BOUND = 1.05  # together may take so many times the longer of the two, and one layer
CALIBRATING = 5  # copies that are timed to know how long a layer takes


@dataclass(frozen=True, slots=True)
class OverlapCase:
    """A load of ``pages`` pages beside ``ratio`` times its time of computing."""

    layout: str
    io_backend: str
    pages: int
    host_run: int
    device_run: int
    work: str
    ratio: float
    packed: bool
    beside_compute: bool | None

    @property
    def id(self) -> str:
        """``page_first/auto/run1/pages512/sleep/ratio0.5/h2d``."""
        parts = [self.layout, self.io_backend, runs_name(self.host_run, self.device_run)]
        parts += [f"pages{self.pages}", self.work, f"ratio{self.ratio:g}", H2D]
        return "/".join([*["packed"] * self.packed, *parts])


def overlap_cases(settings: OverlapSettings) -> list[OverlapCase]:
    """All cases that the settings ask for; ``ValueError`` as for transfers."""
    found = dict.fromkeys(
        OverlapCase(
            layout,
            io_backend,
            pages,
            min(host_run, pages),
            min(device_run, pages),
            settings.work,
            ratio,
            settings.packed,
            settings.beside_compute,
        )
        for layout, io_backend in product(settings.layouts, settings.io_backends)
        for pages in settings.pages_of_a_copy
        for host_run, device_run in product(settings.host_runs, settings.device_runs)
        for ratio in settings.ratios
    )
    kept = set(matching_ids([case.id for case in found], settings.pattern))
    return [case for case in found if case.id in kept]


@dataclass(slots=True)
class Times:
    """Seconds on one clock, a value a round."""

    copy: list[float] = field(default_factory=list)
    compute: list[float] = field(default_factory=list)
    together: list[float] = field(default_factory=list)

    def row(self, prefix: str, layers: int) -> Row:
        """Medians under names that begin with ``prefix``; None where nothing was timed."""
        names = ("copy_seconds", "compute_seconds", "together_seconds", "over", "within_bound")
        if not self.copy:
            return dict.fromkeys((prefix + name for name in names), None)
        copy, compute, together = map(median, (self.copy, self.compute, self.together))
        layer = min(copy, compute) / layers
        within = together <= BOUND * max(copy, compute) + layer
        over = together / (max(copy, compute) + layer)
        values = (copy, compute, together, over, within)
        return {prefix + name: value for name, value in zip(names, values, strict=True)}


@dataclass(slots=True)
class Forward:
    """A forward over the layers behind a load; counts the host's time in it, in seconds."""

    rig: Rig
    copy: Copy
    compute: Queue
    submits: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    def copying(self, stream: Any) -> list[Ticket]:
        """The load alone: the stream waits for every layer of it."""
        tickets = self.rig.submit([self.copy], stream)
        for layer in range(self.rig.format.num_layers):
            tickets[0].wait_layer(layer, stream)
        return tickets

    def computing(self, stream: Any) -> list[Ticket]:
        """The layers alone."""
        for _ in range(self.rig.format.num_layers):
            self.compute(stream)
        return []

    def together(self, stream: Any) -> list[Ticket]:
        """Both, as an engine does it."""
        started = time.perf_counter()
        tickets = self.rig.submit([self.copy], stream)
        self.submits.append(time.perf_counter() - started)
        waited = 0.0
        for layer in range(self.rig.format.num_layers):
            started = time.perf_counter()
            tickets[0].wait_layer(layer, stream)
            waited += time.perf_counter() - started
            self.compute(stream)
        self.waits.append(waited)
        return tickets


class OverlapBench(Bench[OverlapCase]):
    """The cases, planned and checked. timeline: where to write that of one more load.

    Raises:
        ValueError: settings that can't be measured, or a ``timeline`` of more than one case.
        HiCacheError: there is no such device.
    """

    def __init__(self, settings: OverlapSettings, timeline: Path | None = None) -> None:
        cases = overlap_cases(settings)
        if timeline is not None and len(cases) != 1:
            raise ValueError(
                f"a timeline is of one load, but {len(cases)} cases are asked for: give one value "
                f"of --ratios, --pages, --runs, --layout and --io-backend"
            )
        pool = settings.pool or 2 * max(case.pages for case in cases)
        for case in cases:
            check_pool(case.id, case.pages, pool)
        self._timeline = timeline
        self._copies = {case: _copy(case, pool) for case in cases}
        super().__init__(settings, cases, pool)

    def measure(self, case: OverlapCase) -> Row:
        """All rounds of one case."""
        machine, rounds, copy = self.stand.machine, self.settings.rounds, self._copies[case]
        rig = self.stand.rig(case.layout, case.io_backend)
        rig.fill([copy])
        layer = _copy_seconds(machine, rig, copy) / rig.format.num_layers
        forward = Forward(rig, copy, machine.work(case.work, case.ratio * layer))
        nbytes = case.pages * rig.format.page_bytes
        host, device, taken = Times(), Times(), Taken()
        shares: list[float] = []
        for number in range(rounds + 1):
            if number == 1:  # forget the warm-up
                host, device, shares = Times(), Times(), []
                forward.submits.clear()
                forward.waits.clear()
            if number == rounds:
                rig.poison_targets([copy])
            plain = machine.contiguous(H2D, nbytes)
            with rig.counting(taken):
                _round(machine.timed, forward, host)
                if machine.device_clock:
                    _round(_on_device(machine), forward, device)
            shares.append(plain / host.together[-1])
            if number > 0:
                self.report.contiguous(H2D, nbytes, plain)
        seconds = median(host.together)
        verified = rig.verified([copy])
        if self._timeline is not None:
            pool = self.stand.pool
            write_recorded_load(machine, rig, copy, forward.compute, pool, self._timeline)
        return {
            "id": case.id,
            "direction": H2D,
            "bytes": nbytes,
            "seconds_median": seconds,
            "gbps": nbytes / seconds / 1e9,
            "share_of_peak": median(shares),
            "ratio": case.ratio,
            **host.row("", rig.format.num_layers),
            **device.row("device_", rig.format.num_layers),
            "submit_us": 1e6 * median(forward.submits),
            "submit_us_worst": 1e6 * max(forward.submits),
            "wait_layers_us": 1e6 * median(forward.waits),
            "way": taken.names,
            **_asked(case),
            "verified": verified,
        }


def _round(timed: Callable[[Queue], float], forward: Forward, into: Times) -> None:
    into.copy.append(_timed(timed, forward.copying))
    into.compute.append(_timed(timed, forward.computing))
    into.together.append(_timed(timed, forward.together))


def _timed(timed: Callable[[Queue], float], queue: Callable[[Any], list[Ticket]]) -> float:
    """Seconds of what ``queue`` queues; the tickets that it returns have ended well by then."""
    tickets: list[Ticket] = []
    seconds = timed(lambda stream: tickets.extend(queue(stream)))
    wait_for(tickets)
    return seconds


def _copy_seconds(machine: Machine, rig: Rig, copy: Copy) -> float:
    """What a load takes alone: on the device's clock where there is one."""
    forward = Forward(rig, copy, lambda stream: None)
    timed = _on_device(machine) if machine.device_clock else machine.timed
    return median([_timed(timed, forward.copying) for _ in range(CALIBRATING + 1)][1:])


def _on_device(machine: Machine) -> Callable[[Queue], float]:
    return lambda queue: machine.queued(queue)[0]


def _copy(case: OverlapCase, pool: int) -> Copy:
    host = pages_in_runs(pool, case.pages, case.host_run, HOST_SEED)
    device = pages_in_runs(pool, case.pages, case.device_run, DEVICE_SEED)
    return Copy(H2D, host, device, layerwise=True, beside_compute=case.beside_compute)


def _asked(case: OverlapCase) -> Row:
    names: Sequence[str] = (
        *("layout", "io_backend", "pages", "host_run", "device_run"),
        *("work", "packed", "beside_compute"),
    )
    return {name: getattr(case, name) for name in names}
