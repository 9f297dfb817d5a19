"""Streams: the order between an engine's own work and our copies.

A stream is recorded as a *fence*: everything queued on it so far. Copies wait for fences, the
caller never does. On CUDA a fence is an event; ``cuda_streams`` has the kinds of streams. On the
CPU backend work usually runs in the caller's thread, so that ``None`` means "already done";
``CpuStream`` is for engines (and tests) that compute in a thread of theirs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeAlias

from hicache_nsa._core import Fence, StreamClock
from hicache_nsa.cuda_streams import stream_handle
from hicache_nsa.errors import HiCacheError

Stream: TypeAlias = Any
"""A CpuStream, a torch stream, an int handle or None, as far as the device has such streams."""


class _Work(NamedTuple):
    value: int
    function: Callable[..., Any]
    args: tuple[Any, ...]
    future: Future[Any]


class CpuStream:
    """An in-order queue of host functions with a thread of its own.

    ``enqueue`` returns at once. A function that fails shows in its Future, one that was cancelled
    is passed over; later ones still run.
    """

    def __init__(self, name: str = "hicache-cpu-stream") -> None:
        self._clock = StreamClock()
        self._order = threading.Lock()
        self._queue: SimpleQueue[_Work | None] = SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def enqueue(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        """Run ``function(*args)`` after everything queued before.

        Raises:
            HiCacheError: the stream is closed.
        """
        future: Future[Any] = Future()
        with self._order:
            if self._closed:
                raise HiCacheError("the stream is closed; nothing more can be queued on it")
            self._queue.put(_Work(self._clock.submit(), function, args, future))
        return future

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            try:
                if work.future.set_running_or_notify_cancel():
                    work.future.set_result(work.function(*work.args))
            except BaseException as error:
                work.future.set_exception(error)
            finally:
                self._clock.complete(work.value)

    def fence(self) -> Fence:
        """Everything queued so far."""
        return self._clock.fence()

    def synchronize(self) -> None:
        """Wait until everything queued so far has run."""
        self.fence().wait()

    def close(self) -> None:
        """Run what is queued, then end the thread. Idempotent."""
        with self._order:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        self._thread.join()

    def __enter__(self) -> CpuStream:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def check_stream(stream: Stream, device: str) -> None:
    """``TypeError``/``ValueError`` unless ``stream`` is one of ``device``'s streams."""
    if device != "cpu":
        stream_handle(stream, device)
        return
    if stream is None or isinstance(stream, CpuStream) or _is_torch_cpu_stream(stream):
        return
    if isinstance(stream, int) and not isinstance(stream, bool):
        if stream != 0:
            raise ValueError(f"stream={stream}: the {device} device has no stream handles but 0")
        return
    raise TypeError(
        f"stream must be None, 0 or a CpuStream on the {device} device, got {type(stream).__name__}"
    )


def _is_torch_cpu_stream(stream: Stream) -> bool:
    """torch's stand-in for a stream on the CPU, where its work runs in the caller's thread."""
    kind = type(stream)
    if kind.__module__ == "torch.cpu":
        return True
    return (
        kind.__module__ == "torch"
        and getattr(stream, "device", None) is not None
        and str(stream.device).startswith("cpu")
    )


def host_fence(stream: Stream) -> Fence | None:
    """The fence of a stream of the CPU, or None when everything queued on it is done."""
    check_stream(stream, "cpu")
    if isinstance(stream, CpuStream):
        fence = stream.fence()
        return None if fence.done() else fence
    return None
