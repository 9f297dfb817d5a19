"""``LoadBack``: the host part of a match on its way to the device."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from hicache_nsa.cache.copies import Load
from hicache_nsa.cache.handles import Epoch
from hicache_nsa.errors import TransferError
from hicache_nsa.streams import Stream
from hicache_nsa.tokens import PageIds
from hicache_nsa.transfer import seconds_of
from hicache_nsa.tree import Node

if TYPE_CHECKING:
    from types import TracebackType


class LoadBack:
    """Device pages for the host part of a match; the copy runs, or is shared with another one.

    pages: int64 device page ids of the host part, in its order. tokens: what they hold.

    The prefix stays locked and the pages stay valid until ``release()``. Output computed behind a
    LoadBack may be used once ``done()`` is true and ``error`` is None.
    """

    __slots__ = (
        "_epoch",
        "_layers",
        "_loads",
        "_node",
        "_release",
        "_released",
        "_stream",
        "pages",
        "tokens",
    )

    def __init__(
        self,
        pages: PageIds,
        tokens: int,
        layers: int,
        node: Node,
        loads: tuple[Load, ...],
        epoch: Epoch,
        release: Callable[[LoadBack, Stream], None],
        stream: Stream = None,
    ) -> None:
        self.pages = pages
        self.tokens = tokens
        self._layers = layers
        self._node = node
        self._loads = loads
        self._epoch = epoch
        self._release = release
        self._released = False
        self._stream = stream

    def __repr__(self) -> str:
        state = "failed" if self.error else "landed" if self.done() else "in flight"
        return f"LoadBack({self.tokens} tokens, {state}{', released' if self._released else ''})"

    def wait_layer(self, layer: int, stream: Stream = None) -> None:
        """Make ``stream`` wait until ``layer`` is on the device, every buffer of it.

        On CUDA the host never blocks, and None is the constructor's stream where it has one. On
        the CPU ``stream=None`` means the caller's own thread.

        Raises:
            ValueError, TypeError: the format has no such layer.
        """
        if isinstance(layer, bool) or not hasattr(layer, "__index__"):
            raise TypeError(f"layer must be an int, got {layer!r}")
        if not 0 <= layer < self._layers:
            raise ValueError(f"layer {layer} is outside 0..{self._layers - 1}")
        waiting = self._stream if stream is None else stream
        for load in self._loads:
            load.ticket.wait_layer(layer, waiting)

    def done(self) -> bool:
        """True once every copy behind these pages has ended, well or not.

        Ranks get there at different times and decide by ``acked`` instead.
        """
        return all(load.ticket.done() for load in self._loads)

    @property
    def acked(self) -> bool:
        """True once every copy behind these pages was taken in; ``error`` is final then.

        With ``acks="poll"`` the same on all ranks, and so is then whether there is an ``error``.
        """
        return all(load.acked for load in self._loads)

    @property
    def error(self) -> str | None:
        """Why (the first of) the copies failed; None while in flight or when all went well."""
        for load in self._loads:
            if load.error is not None:
                return load.error
        return None

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end, at most ``timeout`` seconds; False at the limit.

        Raises:
            TransferError: a copy failed; the pages hold no valid KV.
        """
        seconds = seconds_of(timeout)
        limit = None if seconds is None else time.monotonic() + seconds
        for load in self._loads:
            left = None if limit is None else max(limit - time.monotonic(), 0.0)
            if not load.ticket.wait_end(left):
                return False
        if self.error is not None:
            raise TransferError(self.error)
        return True

    def release(self, stream: Stream = None) -> None:
        """End the use of the pages, after the work queued on ``stream``. Idempotent.

        A no-op after a flush.
        """
        self._release(self, stream)

    def __enter__(self) -> LoadBack:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()
