"""The test stand of a bench: a machine, two pools of one size, and the engine that is in turn."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

from hicache_nsa import formats
from hicache_nsa.bench.environment import usable_cores
from hicache_nsa.bench.machine import open_machine
from hicache_nsa.bench.pools_under_test import DeviceMemory
from hicache_nsa.bench.report import BenchReport
from hicache_nsa.bench.rig import Rig
from hicache_nsa.bench.settings import BenchSettings
from hicache_nsa.pools import HostPool
from hicache_nsa.transfer import DIRECTIONS, TransferEngine

MOST_WORKERS = 4  # host threads a direction on the CPU, as the engine would choose them


class Stand:
    """Pools of ``pool`` pages on the device of ``settings``, made when they are first needed.

    Raises:
        HiCacheError: there is no such device.
    """

    def __init__(self, settings: BenchSettings, pool: int) -> None:
        self.pool = pool
        self._settings = settings
        self._workers = settings.workers or min(MOST_WORKERS, usable_cores())
        self.format = formats.dsa(settings.layers, kv_dtype=settings.kv_dtype)
        self.machine = open_machine(settings.device, self._workers)
        self._memory: DeviceMemory | None = None
        self._host: HostPool | None = None
        self._engine: TransferEngine | None = None
        self._rig: tuple[tuple[str, str], Rig] | None = None

    def report(self) -> BenchReport:
        """An empty report of what is asked for and where it is measured."""
        settings = {
            **asdict(self._settings),
            "pool": self.pool,
            "pages": self._settings.pages_of_a_copy,
            "page_bytes": self.format.page_bytes,
            "workers": self._workers,
        }
        machine = {"device": self.machine.device, **self.machine.describe()}
        return BenchReport(settings, machine, os.getloadavg()[0])

    def rig(self, layout: str, io_backend: str) -> Rig:
        """Pools of that layout with an engine of that way; the one before is closed.

        Raises:
            HiCacheError: not enough memory, or none that can be pinned.
        """
        key = layout, io_backend
        if self._rig is None or self._rig[0] != key:
            self._rig = key, self._make_rig(layout, io_backend)
        return self._rig[1]

    def _make_rig(self, layout: str, io_backend: str) -> Rig:
        self._close_engine()
        if self._memory is None:
            packed = self._settings.packed
            self._memory = DeviceMemory(self.machine, self.format, self.pool, packed)
        if self._host is None or self._host.layout != layout:
            if self._host is not None:
                self._host.close()
            self._host = HostPool(self.format, pages=self.pool, layout=layout)
        rig = self._new_rig(io_backend, "off")
        self._engine = rig.engine
        return rig

    def _new_rig(self, io_backend: str, verify: str) -> Rig:
        assert self._memory is not None and self._host is not None
        engine = TransferEngine(
            self._memory.pool,
            self._host,
            io_backend,
            self._workers,
            kernel_blocks=self._settings.blocks,
            pin_memory="auto" if self.machine.device == "cpu" else True,
            verify=verify,
        )
        return Rig(self.machine, self._memory, self._host, engine)

    @contextmanager
    def verifying(self, layout: str, io_backend: str, verify: str) -> Iterator[tuple[Rig, Rig]]:
        """``rig`` and, on the same pools, one whose engine verifies; that is closed at the end.

        Raises:
            HiCacheError: as ``rig``.
        """
        plain = self.rig(layout, io_backend)
        checked = self._new_rig(io_backend, verify)
        try:
            yield plain, checked
        finally:
            checked.engine.close()

    def measure_missing_peaks(self, report: BenchReport) -> None:
        """Time contiguous copies of the directions that no case has paired with one."""
        nbytes = max(self._settings.pages_of_a_copy) * self.format.page_bytes
        for direction in DIRECTIONS:
            if report.peak[f"{direction}_gbps"] is None:
                self.machine.contiguous(direction, nbytes)
                for _ in range(self._settings.rounds):
                    report.contiguous(direction, nbytes, self.machine.contiguous(direction, nbytes))

    def _close_engine(self) -> None:
        self._rig = None
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def close(self) -> None:
        """Finish the copies, let go of the memory. Idempotent."""
        self._close_engine()
        if self._host is not None:
            self._host.close()
        self._host = self._memory = None
        self.machine.close()
