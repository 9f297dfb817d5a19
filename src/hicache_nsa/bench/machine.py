"""What a bench needs of a device: memory, random bytes, a contiguous copy, clocks, work to do.

Device bytes are numpy arrays on the CPU and torch tensors on a GPU. Both know slices, ``reshape``
and assignment, so that filling and comparing are written once (``rig``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hicache_nsa.streams import Stream
from hicache_nsa.tokens import PageIds

BOTH = "both"
WORKS = ("sleep", "gemm")

Queue = Callable[[Stream], object]
"""Queues something on a stream of the device; on the CPU, where it is called with None, does it."""


class Marks(Protocol):
    """Points in time on a stream; on the CPU, of the caller."""

    def mark(self, stream: Stream) -> None:
        """Mark the moment at which all that is queued on ``stream`` so far is done."""

    def times(self) -> list[int]:
        """When the marks were reached, nanoseconds of ``time.monotonic_ns()``; waits for them."""


class Machine(Protocol):
    """A device under test.

    ``device``: as the pools take it. ``device_clock``: whether there is a clock on the device.
    """

    device: str
    device_clock: bool

    def describe(self) -> dict[str, object]:
        """What to say of the device in a report."""

    def memory(self, nbytes: int) -> Any:
        """uint8 [nbytes] of the device, uninitialised; ``HiCacheError`` if there is none left."""

    def randomise(self, data: Any, seed: int) -> None:
        """Fill device bytes with random ones."""

    def stage(self, host: NDArray[np.uint8]) -> Any:
        """Host bytes where they can be filled and compared: on the device, or as they are."""

    def unstage(self, staged: Any, host: NDArray[np.uint8]) -> None:
        """Put staged bytes back."""

    def rows(self, data: Any, start: int, stride: int, shape: tuple[int, int]) -> Any:
        """View of 1-D bytes: row i of ``shape`` begins at ``start + i * stride``."""

    def index(self, pages: PageIds) -> Any:
        """Page ids as an index of device bytes."""

    def contiguous(self, direction: str, nbytes: int) -> float:
        """Host clock: seconds of one contiguous copy (``both``: of two at once, nbytes each)."""

    def contiguous_queued(self, direction: str, nbytes: int) -> float:
        """Device clock: the same, queued behind a stream's other work."""

    def timed(self, queue: Queue) -> float:
        """Host clock: from before ``queue`` until all that it queued has run, from idle."""

    def queued(self, queue: Queue) -> tuple[float, bool]:
        """Device clock: seconds that an engine's stream spends on what ``queue`` queues on it.

        The stream is kept busy while the host queues. Also: whether it was busy long enough.
        """

    def marks(self) -> Marks:
        """Marks on the device's clock, told in the host's time."""

    def synchronize(self) -> None:
        """Wait until the device is idle."""

    def work(self, kind: str, seconds: float) -> Queue:
        """A piece of computing that takes about so long; kind: one of WORKS."""

    def close(self) -> None:
        """Let go of threads and memory."""


def open_machine(device: str, threads: int) -> Machine:
    """The machine behind ``cpu``, ``cuda`` or ``cuda:N``; threads of a plain memcpy on the CPU.

    Raises:
        HiCacheError: there is no such device, with what is missing.
    """
    if device == "cpu":
        from hicache_nsa.bench.cpu_machine import CpuMachine

        return CpuMachine(threads)
    from hicache_nsa.pools import check_device

    found = check_device(device)  # before torch: it says best what is missing
    from hicache_nsa.bench.cuda_machine import CudaMachine

    return CudaMachine(found)
