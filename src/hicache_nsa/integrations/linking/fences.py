"""What an offload waits for: all that has been queued on SGLang's streams so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hicache_nsa import _core
from hicache_nsa.transfer import TransferEngine


class OffloadFences:
    """Fences of ``engine``.

    On CUDA: the events that SGLang's ``record_offload_ready`` gives (the current stream, which
    computed the page ids, and the forward stream, which writes the pages), joined on a stream of
    ours that does nothing else. On the CPU work is done when a call returns, but for a forward
    stream that is a ``CpuStream``.
    """

    def __init__(
        self,
        engine: TransferEngine,
        ready: Callable[[], Sequence[Any]],
        forward_stream: Any,
    ) -> None:
        self._engine = engine
        self._ready = ready
        self._forward_stream = forward_stream
        self._join: Any = None
        if engine.device_pool.device != "cpu":
            import torch

            self._join = torch.cuda.Stream(engine.device_pool.device)

    def record(self) -> list[_core.Fence]:
        """Fences behind all that is queued now; an offload that is submitted now waits for them."""
        if self._join is None:
            fence = self._engine.record(self._forward_stream)
        else:
            for event in self._ready():
                self._join.wait_event(event)
            fence = self._engine.record(self._join)
        return [] if fence is None else [fence]
