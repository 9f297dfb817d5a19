"""``hicache bench verify``: what digests cost: an engine that verifies, by one that doesn't.

Every round times the same copy by either engine in turn, on the host's clock from idle, from before
the call that submits until the ticket's ``wait`` has returned, which is behind the digests.
``over_off``: the median of the rounds' ratios. ``landed_over_off``: the same of the time until a
load's last layer may be used, which on a GPU does not wait for digests.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from statistics import median

from hicache_nsa.bench.bench import Bench
from hicache_nsa.bench.page_runs import pages_in_runs
from hicache_nsa.bench.report import Row
from hicache_nsa.bench.rig import Copy, Rig, wait_for
from hicache_nsa.bench.settings import VerifySettings
from hicache_nsa.bench.transfer_cases import (
    DEVICE_SEED,
    HOST_SEED,
    check_pool,
    matching_ids,
    runs_name,
)
from hicache_nsa.streams import Stream
from hicache_nsa.transfer import D2H, Ticket


@dataclass(frozen=True, slots=True)
class VerifyCase:
    """One kind of copy. verify: of the engine that is compared with one that doesn't."""

    layout: str
    io_backend: str
    host_run: int
    device_run: int
    pages: int
    direction: str
    verify: str

    @property
    def id(self) -> str:
        """``page_first/auto/run1/pages512/h2d/all``."""
        runs = runs_name(self.host_run, self.device_run)
        copy = f"pages{self.pages}/{self.direction}/{self.verify}"
        return f"{self.layout}/{self.io_backend}/{runs}/{copy}"


@dataclass(slots=True)
class Seconds:
    """Of one engine, a round each: until the copy had ended, and until its bytes were in place."""

    ended: list[float] = field(default_factory=list)
    landed: list[float] = field(default_factory=list)

    def over(self, other: Seconds) -> tuple[float, float]:
        """Medians of the rounds' ratios."""
        return (
            median(a / b for a, b in zip(self.ended, other.ended, strict=True)),
            median(a / b for a, b in zip(self.landed, other.landed, strict=True)),
        )


def verify_cases(settings: VerifySettings) -> list[VerifyCase]:
    """All cases that the settings ask for, less those that ``pattern`` does not match.

    Raises:
        ValueError: nothing matches.
    """
    found = dict.fromkeys(
        VerifyCase(layout, way, min(host, pages), min(device, pages), pages, direction, verify)
        for layout, way in product(settings.layouts, settings.io_backends)
        for pages, host, device in product(
            settings.pages_of_a_copy, settings.host_runs, settings.device_runs
        )
        for direction, verify in product(settings.directions, settings.verify)
    )
    kept = set(matching_ids([case.id for case in found], settings.pattern))
    return [case for case in found if case.id in kept]


class VerifyBench(Bench[VerifyCase]):
    """The cases, planned and checked.

    Raises:
        ValueError: settings that can't be measured. HiCacheError: there is no such device.
    """

    def __init__(self, settings: VerifySettings) -> None:
        cases = verify_cases(settings)
        pool = settings.pool or 2 * max(case.pages for case in cases)
        for case in cases:
            check_pool(case.id, case.pages, pool)
        super().__init__(settings, cases, pool)

    def measure(self, case: VerifyCase) -> Row:
        """All rounds of one case."""
        pool, rounds = self.stand.pool, self.settings.rounds
        copy = Copy(
            case.direction,
            pages_in_runs(pool, case.pages, case.host_run, HOST_SEED),
            pages_in_runs(pool, case.pages, case.device_run, DEVICE_SEED),
            beside_compute=self.settings.beside_compute,
        )
        nbytes = case.pages * self.stand.format.page_bytes
        off, on = Seconds(), Seconds()
        with self.stand.verifying(case.layout, case.io_backend, case.verify) as (plain, checked):
            saved = replace(copy, direction=D2H)
            plain.fill([saved])
            wait_for(checked.submit([saved]))  # so that loads have something to compare with
            before = checked.engine.counters()["h2d"]["verified"]
            for number in range(rounds + 1):
                if number == 1:
                    off, on = Seconds(), Seconds()  # forget the warm-up
                contiguous = self.stand.machine.contiguous(case.direction, nbytes)
                self.report.contiguous(case.direction, nbytes, contiguous)
                if number == rounds:
                    plain.poison_targets([copy])
                turns = [(plain, off), (checked, on)]
                for rig, seconds in turns if number % 2 else reversed(turns):
                    self._time(rig, copy, seconds)
            counters = checked.engine.counters()["h2d"]
            right = plain.verified([copy]) and counters["corrupt"] == 0
        ended, landed = on.over(off)
        return {
            "id": case.id,
            "direction": case.direction,
            "bytes": nbytes,
            "seconds_median": median(on.ended),
            "gbps": nbytes / median(on.ended) / 1e9,
            "off_seconds_median": median(off.ended),
            "off_gbps": nbytes / median(off.ended) / 1e9,
            "over_off": ended,
            "landed_over_off": None if case.direction == D2H else landed,
            "verified_pages_a_copy": (counters["verified"] - before) / (rounds + 1),
            **{key: value for key, value in asdict(case).items() if key != "direction"},
            "verified": right,
        }

    def _time(self, rig: Rig, copy: Copy, into: Seconds) -> None:
        tickets: list[Ticket] = []

        def queue(stream: Stream) -> None:
            tickets.extend(rig.submit([copy], stream))
            if copy.direction == D2H:
                wait_for(tickets)
            else:
                tickets[0].wait_layer(rig.format.num_layers - 1, stream)

        started = time.perf_counter()
        into.landed.append(self.stand.machine.timed(queue))
        wait_for(tickets)
        into.ended.append(time.perf_counter() - started)
