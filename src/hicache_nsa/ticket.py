"""``Ticket``: a submitted copy, and what became of it."""

from __future__ import annotations

import os

import numpy as np

from hicache_nsa import _core
from hicache_nsa.cuda_streams import stream_handle
from hicache_nsa.errors import HiCacheError, TransferError
from hicache_nsa.streams import CpuStream, Stream, check_stream
from hicache_nsa.tokens import PageIds

MAX_SECONDS = 1e9


class Ticket:
    """A submitted copy."""

    def __init__(self, native: _core.Ticket, device: str) -> None:
        self._native = native
        self._device = device
        self._pid = os.getpid()

    def done(self) -> bool:
        """True once the copy has ended, well or not."""
        if self._native.done():
            return True
        self._require_threads()
        return False

    @property
    def error(self) -> str | None:
        """Why the copy failed; None while in flight or when it went well."""
        return self._native.error if self.done() else None

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end, at most ``timeout`` seconds; False at the limit.

        Raises:
            TransferError: the copy failed.
        """
        if not self.wait_end(timeout):
            return False
        if self.error is not None:
            raise TransferError(self.error)
        return True

    def wait_end(self, timeout: float | None = None) -> bool:
        """``wait`` that does not raise for a failed copy: ask ``error``."""
        limit = seconds_of(timeout)
        return self.done() or self._native.wait(limit)

    def wait_layer(self, layer: int, stream: Stream = None) -> None:
        """Make ``stream`` wait until ``layer`` has landed, all its buffers.

        On CUDA that stream waits, not the host (but for 5 ms a copy at most, where more than two
        streams come before the layer is queued). On the CPU, ``stream=None`` computes in the
        caller's thread, which therefore waits (the GIL released); a CpuStream waits in its own
        thread and the caller does not. Returns also when the copy failed: ask ``error`` before
        using what was computed behind it.
        """
        if self._device != "cpu":
            handle = stream_handle(stream, self._device)
            try:
                self._native.wait_layer_on_stream(layer, handle)
            except RuntimeError as error:
                raise HiCacheError(str(error)) from error
            return
        check_stream(stream, self._device)
        if self.layer_done(layer):  # an unknown layer is reported here, not on the stream
            return
        if isinstance(stream, CpuStream):
            stream.enqueue(self._native.wait_layer, layer)
        else:
            self._native.wait_layer(layer)

    def layer_done(self, layer: int) -> bool:
        """True once ``layer`` and those before it have landed."""
        if not self._native.layer_done(layer) and not self._native.done():
            self._require_threads()
        return self._native.layer_done(layer)

    @property
    def pages(self) -> int:
        """Pages of this copy."""
        return self._native.pages

    @property
    def nbytes(self) -> int:
        """Bytes of this copy."""
        return self._native.nbytes

    @property
    def corrupt(self) -> PageIds:
        """Indices into the lists of pages of those that are not what was saved, int64, ascending.

        For loads of an engine that verifies; empty until the copy is done.
        """
        return self._native.corrupt

    @property
    def seconds(self) -> float:
        """Time the copy itself took; 0 until it is done."""
        return self._native.seconds

    def _require_threads(self) -> None:
        """``HiCacheError`` in a forked child, where a copy in flight never ends."""
        if self._pid != os.getpid():
            raise HiCacheError(
                "this copy was in flight in the parent process; a forked child has none of its "
                "threads and can't wait for it"
            )


def seconds_of(timeout: float | None) -> float | None:
    """``timeout`` as a float, or None; ``TypeError``/``ValueError`` unless it is 0 or more."""
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float, np.number)):
        raise TypeError(f"timeout must be seconds or None, got {type(timeout).__name__}")
    if not timeout >= 0:
        raise ValueError(f"timeout={timeout} must be 0 or more seconds")
    return float(min(timeout, MAX_SECONDS))
