"""Pools and an engine, the copies that are measured between them, and the proof of their bytes.

Before a case every page that a copy reads holds fresh random bytes and every other page a constant,
another one in each pool, as do the guards around the device memory. Afterwards the pages that were
written equal the pages that were read, and all that was neither still holds the constant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hicache_nsa.bench.machine import Machine
from hicache_nsa.bench.pools_under_test import DEVICE_POISON, DeviceMemory
from hicache_nsa.errors import HiCacheError
from hicache_nsa.pools import HostPool
from hicache_nsa.streams import Stream
from hicache_nsa.tokens import PageIds
from hicache_nsa.transfer import D2H, H2D, IO_BACKENDS, Ticket, TransferEngine

WAYS = tuple(name for name in IO_BACKENDS if name != "auto")
HOST_POISON = 0xA7
WAIT_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Copy:
    """One copy of pages; ``layerwise`` is for loads."""

    direction: str
    host_pages: PageIds
    device_pages: PageIds
    layerwise: bool = True
    beside_compute: bool | None = None


@dataclass(slots=True)
class Taken:
    """Ways of a GPU that copies took (none on the CPU), and runs that their pages were merged into.

    The copies are the same ones again and again.
    """

    ways: set[str] = field(default_factory=set)
    copies: int = 0
    runs: int = 0

    @property
    def names(self) -> list[str]:
        """The ways in the order of their names."""
        return sorted(self.ways)

    @property
    def runs_a_copy(self) -> float:
        """Runs of neighbours on both sides, of one copy."""
        return self.runs / self.copies


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the pages of one (buffer, layer) lie in the host pool, and the device's rows."""

    start: int
    stride: int
    page_bytes: int
    device_rows: Any


class Rig:
    """An engine between ``memory`` and ``host`` on ``machine``. The engine is closed by its maker.

    Each ``fill`` has other random bytes.
    """

    def __init__(
        self, machine: Machine, memory: DeviceMemory, host: HostPool, engine: TransferEngine
    ) -> None:
        self.machine = machine
        self.engine = engine
        self.format = host.format
        self._memory = memory
        self._host = host
        self._seed = 0
        pages = host.num_pages
        self._places = []
        for buffer in self.format.buffers:
            for layer, rows in zip(buffer.layers, memory.buffers[buffer.name], strict=True):
                start = host.offset(buffer.name, layer, 0)
                stride = host.offset(buffer.name, layer, 1) - start if pages > 1 else 0
                self._places.append(_Place(start, stride, buffer.page_bytes, rows))

    def submit(self, copies: Sequence[Copy], stream: Stream = None) -> list[Ticket]:
        """Submit each of ``copies`` by one call, as an engine does."""
        return [self._submit(copy, stream) for copy in copies]

    def _submit(self, copy: Copy, stream: Stream) -> Ticket:
        if copy.direction == D2H:
            return self.engine.save(
                copy.device_pages,
                copy.host_pages,
                stream=stream,
                beside_compute=copy.beside_compute,
            )
        return self.engine.load(
            copy.host_pages,
            copy.device_pages,
            stream=stream,
            layerwise=copy.layerwise,
            beside_compute=copy.beside_compute,
        )

    @contextmanager
    def counting(self, taken: Taken) -> Iterator[None]:
        """Add what the engine counts inside the block to ``taken``."""
        before = self.engine.counters()
        yield
        for direction, after in self.engine.counters().items():
            grown = {key: after[key] - before[direction].get(key, 0) for key in after}
            taken.ways.update(way for way in WAYS if grown.get(way, 0) > 0)
            taken.copies += grown["submitted"]
            taken.runs += grown["runs"]

    def fill(self, copies: Sequence[Copy]) -> None:
        """Random bytes in the pages that are read, the constant in all others."""
        self._seed += 1
        staged = self.machine.stage(self._host.view())
        self.machine.randomise(staged, 2 * self._seed)
        self._poison_host(staged, self._other_pages(copies, "host", H2D))
        self.machine.unstage(staged, self._host.view())
        self._memory.fill(self.machine, 2 * self._seed + 1)
        self._poison_device(self._other_pages(copies, "device", D2H))
        self.machine.synchronize()

    def poison_targets(self, copies: Sequence[Copy]) -> None:
        """The constant in the pages that are written: what is right afterwards was copied since."""
        for copy in copies:
            if copy.direction == D2H:
                staged = self.machine.stage(self._host.view())
                self._poison_host(staged, copy.host_pages)
                self.machine.unstage(staged, self._host.view())
            else:
                self._poison_device(copy.device_pages)
        self.machine.synchronize()

    def verified(self, copies: Sequence[Copy]) -> bool:
        """Every byte of both pools and of the guards is what ``copies`` have to leave."""
        self.machine.synchronize()
        index = self.machine.index
        staged = self.machine.stage(self._host.view())
        untouched_host = index(_without(self._other_pages(copies, "host", H2D), copies, D2H))
        untouched_device = index(_without(self._other_pages(copies, "device", D2H), copies, H2D))
        pairs = [(index(copy.host_pages), index(copy.device_pages)) for copy in copies]
        for place in self._places:
            host, device = self._host_rows(staged, place), place.device_rows
            if any(not _equal(host[h], device[d]) for h, d in pairs):
                return False
            if not _equal(host[untouched_host], HOST_POISON):
                return False
            if not _equal(device[untouched_device], DEVICE_POISON):
                return False
        return self._memory.guards_hold()

    def _host_rows(self, staged: Any, place: _Place) -> Any:
        shape = (self._host.num_pages, place.page_bytes)
        return self.machine.rows(staged, place.start, place.stride, shape)

    def _poison_host(self, staged: Any, pages: PageIds) -> None:
        index = self.machine.index(pages)
        for place in self._places:
            self._host_rows(staged, place)[index] = HOST_POISON

    def _poison_device(self, pages: PageIds) -> None:
        index = self.machine.index(pages)
        for place in self._places:
            place.device_rows[index] = DEVICE_POISON

    def _other_pages(self, copies: Sequence[Copy], tier: str, reading: str) -> PageIds:
        """Pages of ``tier`` that no copy reads; ``reading``: the direction that reads there."""
        pool = self._host if tier == "host" else self._memory.pool
        read = [
            copy.host_pages if tier == "host" else copy.device_pages
            for copy in copies
            if copy.direction == reading
        ]
        everything = np.arange(pool.num_pages, dtype=np.int64)
        return np.setdiff1d(everything, np.concatenate(read)) if read else everything


def wait_for(tickets: Sequence[Ticket]) -> None:
    """Wait until all have ended well.

    Raises:
        HiCacheError: one takes longer than WAIT_SECONDS. TransferError: one failed.
    """
    for ticket in tickets:
        if not ticket.wait(WAIT_SECONDS):
            raise HiCacheError(
                f"a copy of {ticket.pages} pages ({ticket.nbytes} bytes) has not ended after "
                f"{WAIT_SECONDS:.0f} s"
            )


def _without(pages: PageIds, copies: Sequence[Copy], writing: str) -> PageIds:
    """``pages`` less those that copies of direction ``writing`` write."""
    written = [
        copy.host_pages if writing == D2H else copy.device_pages
        for copy in copies
        if copy.direction == writing
    ]
    return np.setdiff1d(pages, np.concatenate(written)) if written else pages


def _equal(left: Any, right: Any) -> bool:
    return bool((left == right).all())
