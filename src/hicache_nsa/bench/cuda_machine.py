"""A GPU as a device: torch memory, contiguous pinned copies, the host's clock and the GPU's.

Two clocks. The host's: from idle, from before a call until what it queued has run, which is what a
caller sees. The device's: between two events on an engine's stream that is still busy when the work
is queued, so that the host's part is hidden; that is what a queued load costs behind a running
forward. A staged load fills its ring (32 MiB) from host memory while the stream is still busy,
before this clock starts: small loads look faster than the link on it, by what they do gain there.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hicache_nsa.bench.machine import BOTH, Queue
from hicache_nsa.cuda_streams import require_torch_gpu
from hicache_nsa.errors import HiCacheError
from hicache_nsa.tokens import PageIds

BUSY_SECONDS = 0.01  # what the host queues meanwhile is hidden
PIECE_BYTES = 64 << 20  # of host memory that one copy moves; the engine pins multiples of it
TICKS = 20_000_000  # of the spin that calibrates the spin
MATRIX = 2048  # rows of the bf16 matrices that work multiplies: about 25 us on an H200
CALIBRATING = 50  # products that are timed for it


class CudaMarks:
    """Events on streams; see ``Marks``. The host knows the time of the first one to some us."""

    def __init__(self, stream: Any) -> None:
        self._origin = torch.cuda.Event(enable_timing=True)
        self._events: list[Any] = []
        torch.cuda.synchronize()
        before = time.monotonic_ns()
        self._origin.record(stream)
        self._origin.synchronize()
        self._origin_ns = (before + time.monotonic_ns()) // 2

    def mark(self, stream: Any) -> None:
        """An event behind what is queued."""
        self._events.append(torch.cuda.Event(enable_timing=True))
        self._events[-1].record(stream)

    def times(self) -> list[int]:
        """Waits for the events."""
        found = []
        for event in self._events:
            event.synchronize()
            found.append(self._origin_ns + round(1e6 * self._origin.elapsed_time(event)))
        return found


class CudaMachine:
    """One GPU, ``cuda:N``; see ``Machine`` for the methods."""

    device_clock = True

    def __init__(self, device: str) -> None:
        require_torch_gpu(device)
        self.device = device
        torch.cuda.set_device(device)
        self._stream = torch.cuda.Stream()  # an engine's
        self._other = torch.cuda.Stream()  # for a second copy at the same time
        self._pairs: dict[str, tuple[Any, Any]] = {}
        self._ticks_a_second = 1.0
        self._ticks_a_second = self._calibrate_spin()

    @property
    def stream(self) -> Any:
        """The engine's stream of the two clocks; idle between two calls."""
        return self._stream

    def describe(self) -> dict[str, object]:
        """The GPU, and torch's CUDA."""
        properties = torch.cuda.get_device_properties(self.device)
        return {
            "gpu": properties.name,
            "gpu_bytes": properties.total_memory,
            "sms": properties.multi_processor_count,
            "torch_cuda": torch.version.cuda,
        }

    def memory(self, nbytes: int) -> Any:
        """Memory of the GPU, torch's."""
        try:
            return torch.empty(nbytes, dtype=torch.uint8, device=self.device)
        except torch.cuda.OutOfMemoryError as error:
            raise HiCacheError(f"{error}; ask for fewer pages or layers") from error

    def randomise(self, data: Any, seed: int) -> None:
        """Random bytes, made on the GPU."""
        generator = torch.Generator(self.device).manual_seed(seed)
        data.random_(0, 256, generator=generator)

    def stage(self, host: NDArray[np.uint8]) -> Any:
        """A copy on the GPU: filled and compared there, a pool takes milliseconds."""
        data = self.memory(host.size)
        for piece in _pieces(host.size):
            data[piece].copy_(torch.from_numpy(host[piece]))
        return data

    def unstage(self, staged: Any, host: NDArray[np.uint8]) -> None:
        """Copy it back; the host waits."""
        for piece in _pieces(host.size):
            torch.from_numpy(host[piece]).copy_(staged[piece])

    def rows(self, data: Any, start: int, stride: int, shape: tuple[int, int]) -> Any:
        """A strided view."""
        return torch.as_strided(data, shape, (stride, 1), data.storage_offset() + start)

    def index(self, pages: PageIds) -> Any:
        """The ids on the GPU."""
        return torch.from_numpy(pages).to(self.device)

    def contiguous(self, direction: str, nbytes: int) -> float:
        """Pinned memory and torch's own copy, by copy engine."""
        self._make_pairs(direction, nbytes)
        return self.timed(lambda stream: self._queue_contiguous(direction, nbytes, stream))

    def contiguous_queued(self, direction: str, nbytes: int) -> float:
        """The same on the device's clock."""
        self._make_pairs(direction, nbytes)
        return self.queued(lambda stream: self._queue_contiguous(direction, nbytes, stream))[0]

    def queue_contiguous(self, direction: str, nbytes: int) -> Any:
        """One contiguous copy on a stream of its own; the event behind it."""
        self._make_pairs(direction, nbytes)
        self._queue_contiguous(direction, nbytes, self._stream)
        event = torch.cuda.Event()
        event.record(self._stream)
        return event

    def _make_pairs(self, direction: str, nbytes: int) -> None:
        for each in _directions(direction):
            if each in self._pairs and self._pairs[each][0].numel() >= nbytes:
                continue
            self._pairs.pop(each, None)
            host = torch.zeros(nbytes, dtype=torch.uint8, pin_memory=True)
            pair = (self.memory(nbytes), host)
            self._pairs[each] = pair if each == "h2d" else (pair[1], pair[0])

    def _queue_contiguous(self, direction: str, nbytes: int, stream: Any) -> None:
        """The second of two copies at once goes on the other stream, inside this one's order."""
        first, *second = (self._pairs[each] for each in _directions(direction))
        if second:
            self._other.wait_stream(stream)
        with torch.cuda.stream(stream):
            first[0][:nbytes].copy_(first[1][:nbytes], non_blocking=True)
        for target, source in second:
            with torch.cuda.stream(self._other):
                target[:nbytes].copy_(source[:nbytes], non_blocking=True)
            stream.wait_stream(self._other)

    def timed(self, queue: Queue) -> float:
        """Host clock, from an idle device until the stream is done."""
        torch.cuda.synchronize()
        started = time.perf_counter()
        queue(self._stream)
        self._stream.synchronize()
        return time.perf_counter() - started

    def queued(self, queue: Queue) -> tuple[float, bool]:
        """Device clock, behind a spin of BUSY_SECONDS that one SM's thread does."""
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        self.spin(BUSY_SECONDS, self._stream)
        begin.record(self._stream)
        queue(self._stream)
        hidden = not begin.query()
        end.record(self._stream)
        end.synchronize()
        return begin.elapsed_time(end) / 1e3, hidden

    def marks(self) -> CudaMarks:
        """Events, beside one whose time the host knows."""
        return CudaMarks(self._stream)

    def synchronize(self) -> None:
        """The whole device."""
        torch.cuda.synchronize()

    def work(self, kind: str, seconds: float) -> Queue:
        """``sleep``: a spin, which leaves the SMs to others. ``gemm``: matrix products."""
        if kind == "sleep":
            return lambda stream: self.spin(seconds, stream)
        matrix = torch.randn(MATRIX, MATRIX, device=self.device).to(torch.bfloat16)
        product = torch.empty_like(matrix)
        self.synchronize()

        def multiply(times: int, stream: Any) -> None:
            with torch.cuda.stream(stream):
                for _ in range(times):
                    torch.mm(matrix, matrix, out=product)

        multiply(CALIBRATING, self._stream)
        one = self.queued(lambda stream: multiply(CALIBRATING, stream))[0] / CALIBRATING
        times = max(1, round(seconds / one))
        return lambda stream: multiply(times, stream)

    def spin(self, seconds: float, stream: Any) -> None:
        """Keep a stream busy for so long by one thread of the GPU."""
        with torch.cuda.stream(stream):
            torch.cuda._sleep(max(1, int(seconds * self._ticks_a_second)))

    def _calibrate_spin(self) -> float:
        """Ticks that a spin takes a second; the first one warms up."""
        seconds = 0.0
        for _ in range(3):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record(self._stream)
            self.spin(float(TICKS), self._stream)  # one tick a second so far
            end.record(self._stream)
            end.synchronize()
            seconds = begin.elapsed_time(end) / 1e3
        return TICKS / seconds

    def close(self) -> None:
        """Let go of the contiguous buffers."""
        self._pairs.clear()


def _directions(direction: str) -> tuple[str, ...]:
    return ("h2d", "d2h") if direction == BOTH else (direction,)


def _pieces(nbytes: int) -> list[slice]:
    """Parts that do not cross the borders between two registrations of a pinned pool."""
    return [slice(start, start + PIECE_BYTES) for start in range(0, nbytes, PIECE_BYTES)]
