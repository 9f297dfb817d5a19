"""Rounds in which a contiguous copy and the engine's copy are timed in turn, on each clock."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from hicache_nsa.bench.joint import Joint, JointRounds
from hicache_nsa.bench.machine import Machine
from hicache_nsa.bench.rig import Copy, Rig, Taken, wait_for
from hicache_nsa.transfer import D2H, Ticket


@dataclass(slots=True)
class Pairs:
    """Seconds of the contiguous copy and of the engine's copy beside it, a pair a round."""

    contiguous: list[float] = field(default_factory=list)
    copies: list[float] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Median of the engine's copies."""
        return median(self.copies)

    @property
    def shares(self) -> list[float]:
        """Share of the contiguous copy's speed in each round."""
        return [a / b for a, b in zip(self.contiguous, self.copies, strict=True)]


@dataclass(slots=True)
class Measured:
    """What the rounds that count gave. ``submits``: seconds of the calls that submit.

    ``hidden``: on the device's clock, the stream was busy until everything was queued.
    """

    host: Pairs = field(default_factory=Pairs)
    host_taken: Taken = field(default_factory=Taken)
    device: Pairs = field(default_factory=Pairs)
    device_taken: Taken = field(default_factory=Taken)
    submits: list[float] = field(default_factory=list)
    hidden: bool = True
    joint: JointRounds | None = None


def measure(
    machine: Machine,
    rig: Rig,
    copies: Sequence[Copy],
    direction: str,
    rounds: int,
    joint: Joint | None,
) -> Measured:
    """``rounds`` rounds behind one that warms up. ``copies`` are made at once, equally long.

    Before the last round the pages that are written are poisoned: what they hold afterwards comes
    from copies that were timed.
    """
    rig.fill(copies)
    measured = Measured()
    for number in range(rounds + 1):
        if number == 1:
            measured = Measured()  # forget the warm-up
        if number == rounds:
            rig.poison_targets(copies)
        _round(machine, rig, copies, direction, measured, joint)
    return measured


def _round(
    machine: Machine,
    rig: Rig,
    copies: Sequence[Copy],
    direction: str,
    into: Measured,
    joint: Joint | None,
) -> None:
    nbytes = len(copies[0].host_pages) * rig.format.page_bytes
    plain = machine.contiguous(direction, nbytes)
    with rig.counting(into.host_taken):
        submit, seconds = host_time(machine, rig, copies)
    into.host.contiguous.append(plain)
    into.host.copies.append(seconds)
    into.submits.append(submit)
    if machine.device_clock:
        into.device.contiguous.append(machine.contiguous_queued(direction, nbytes))
        with rig.counting(into.device_taken):
            queued, hidden = device_time(machine, rig, copies)
        into.device.copies.append(queued)
        into.hidden &= hidden
    if joint is not None:
        into.joint = joint.round(rig, copies, direction, plain, seconds, into.joint)


def host_time(machine: Machine, rig: Rig, copies: Sequence[Copy]) -> tuple[float, float]:
    """Host clock, from idle: seconds of the calls that submit, and from before them until what is
    copied may be used: a stream that waits for the last layer of a load has run on, the ticket's
    ``wait`` of a save has returned. A contiguous copy is over when its stream has run on.
    """
    tickets: list[Ticket] = []
    submits: list[float] = []

    def queue(stream: object) -> None:
        started = time.perf_counter()
        tickets.extend(rig.submit(copies, stream))
        submits.append(time.perf_counter() - started)
        for ticket, copy in zip(tickets, copies, strict=True):
            if copy.direction == D2H:
                wait_for([ticket])
            else:
                ticket.wait_layer(rig.format.num_layers - 1, stream)

    seconds = machine.timed(queue)
    wait_for(tickets)
    return submits[0], seconds


def device_time(machine: Machine, rig: Rig, copies: Sequence[Copy]) -> tuple[float, bool]:
    """Device clock: on a stream that is still busy when the copies are submitted on it, from there
    until it has waited for the last layer. Also whether it was busy until all was queued.
    """
    tickets: list[Ticket] = []

    def queue(stream: object) -> None:
        tickets.extend(rig.submit(copies, stream))
        for ticket in tickets:
            ticket.wait_layer(rig.format.num_layers - 1, stream)

    timed = machine.queued(queue)
    wait_for(tickets)
    return timed
