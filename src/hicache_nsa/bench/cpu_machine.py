"""The CPU as a device: numpy memory, a plain memcpy by as many threads as the engine has."""

from __future__ import annotations

import ctypes
import time
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from hicache_nsa.bench.machine import BOTH, Queue
from hicache_nsa.errors import HiCacheError
from hicache_nsa.streams import Stream
from hicache_nsa.tokens import PageIds

Bytes = NDArray[np.uint8]
MATRIX = 128  # rows of the matrices that work multiplies
CALIBRATING = 50  # products that are timed for it

_memcpy = ctypes.CDLL(None).memcpy  # a plain foreign call: the GIL is released
_memcpy.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_memcpy.restype = ctypes.c_void_p


class CpuMarks:
    """Moments at which the caller was there; see ``Marks``."""

    def __init__(self) -> None:
        self._times: list[int] = []

    def mark(self, stream: Stream) -> None:
        """Now: the caller computes."""
        self._times.append(time.monotonic_ns())

    def times(self) -> list[int]:
        """When that was."""
        return self._times


class CpuMachine:
    """The machine's own memory and cores; see ``Machine`` for the methods."""

    device = "cpu"
    device_clock = False

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._pool = ThreadPoolExecutor(2 * threads, "hicache-bench")
        self._pairs: dict[str, tuple[Bytes, Bytes]] = {}

    def describe(self) -> dict[str, object]:
        """Nothing but the threads: the rest is known of every machine."""
        return {"memcpy_threads": self._threads}

    def memory(self, nbytes: int) -> Bytes:
        """Memory of the process."""
        try:
            return np.empty(nbytes, np.uint8)
        except MemoryError as error:
            raise HiCacheError(f"{error}; ask for fewer pages or layers") from error

    def randomise(self, data: Bytes, seed: int) -> None:
        """Random 64-bit words, a last part of one as it is cut."""
        random = np.random.default_rng(seed)
        part = 1 << 24  # bytes at a time
        for start in range(0, data.size, part):
            piece = data[start : start + part]
            piece[:] = np.frombuffer(random.bytes(piece.size), np.uint8)

    def stage(self, host: Bytes) -> Bytes:
        """The host bytes themselves."""
        return host

    def unstage(self, staged: Bytes, host: Bytes) -> None:
        """Nothing to do: they are there."""

    def rows(self, data: Bytes, start: int, stride: int, shape: tuple[int, int]) -> Bytes:
        """A strided view."""
        return as_strided(data[start:], shape, (stride, 1))

    def index(self, pages: PageIds) -> PageIds:
        """The ids themselves."""
        return pages

    def contiguous(self, direction: str, nbytes: int) -> float:
        """Seconds of a memcpy cut into as many parts as there are threads."""
        directions = ("h2d", "d2h") if direction == BOTH else (direction,)
        pairs = [self._pair(each, nbytes) for each in directions]
        started = time.perf_counter()
        parts = [part for pair in pairs for part in self._copy(*pair, nbytes)]
        for part in parts:
            part.result()
        return time.perf_counter() - started

    def _pair(self, direction: str, nbytes: int) -> tuple[Bytes, Bytes]:
        """(target, source) of at least that size."""
        pair = self._pairs.get(direction)
        if pair is None or pair[0].size < nbytes:
            pair = self._pairs[direction] = (self.memory(nbytes), self.memory(nbytes))
            for data in pair:
                data[:] = 1  # in place before it is timed
        return pair

    def _copy(self, target: Bytes, source: Bytes, nbytes: int) -> list[Future[Any]]:
        count = self._threads
        cuts = [nbytes * i // count // 4096 * 4096 for i in range(count)] + [nbytes]
        to, of = target.ctypes.data, source.ctypes.data
        return [self._pool.submit(_memcpy, to + a, of + a, b - a) for a, b in pairwise(cuts)]

    def contiguous_queued(self, direction: str, nbytes: int) -> float:
        """There is no clock but the host's."""
        return self.contiguous(direction, nbytes)

    def timed(self, queue: Queue) -> float:
        """Seconds of the call: the caller computes."""
        started = time.perf_counter()
        queue(None)
        return time.perf_counter() - started

    def queued(self, queue: Queue) -> tuple[float, bool]:
        """There is no clock but the host's."""
        return self.timed(queue), True

    def marks(self) -> CpuMarks:
        """The caller's own clock."""
        return CpuMarks()

    def synchronize(self) -> None:
        """Nothing runs here but what was waited for."""

    def work(self, kind: str, seconds: float) -> Queue:
        """``sleep``: the caller sleeps. ``gemm``: a fixed number of matrix products, which take so
        long where nothing else runs.
        """
        if kind == "sleep":
            return lambda _: time.sleep(seconds)
        matrix = np.ones((MATRIX, MATRIX), np.float32)

        def multiply(times: int) -> None:
            for _ in range(times):
                matrix @ matrix

        multiply(CALIBRATING)
        started = time.perf_counter()
        multiply(CALIBRATING)
        one = (time.perf_counter() - started) / CALIBRATING
        return lambda _: multiply(max(1, round(seconds / one)))

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()
        self._pairs.clear()
