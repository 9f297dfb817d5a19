"""Streams of a CUDA device as the handles that the C++ core takes; whether torch has a GPU."""

from __future__ import annotations

import sys
from typing import Any

from hicache_nsa.errors import HiCacheError

_NO_TORCH_STREAM = 0


def stream_handle(stream: Any, device: str) -> int:
    """The handle of a stream of ``device`` (``cuda:N``).

    A torch stream, a cuda-python stream, an object with ``__cuda_stream__``, an int handle, or
    None: torch's current stream where torch uses the GPU already, else the default one.

    Raises:
        TypeError: some other kind. ValueError: a torch stream of another device, a negative int.
    """
    if stream is None:
        return _current_torch_stream(device)
    if isinstance(stream, int) and not isinstance(stream, bool):
        if stream < 0:
            raise ValueError(f"stream={stream} is no stream handle")
        return stream
    if isinstance(handle := getattr(stream, "cuda_stream", None), int):
        owner = str(getattr(stream, "device", device))
        if owner != device:
            raise ValueError(f"the stream belongs to {owner}, the pool's device is {device}")
        return handle
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        return int(protocol()[1])
    if type(stream).__module__.split(".")[0] == "cuda" and hasattr(stream, "__int__"):
        return int(stream)
    raise TypeError(
        f"stream must be a torch or cuda-python stream, an int handle or None on {device}, "
        f"got {type(stream).__name__}"
    )


def _current_torch_stream(device: str) -> int:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return _NO_TORCH_STREAM
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    if raw is not None:  # every submission comes here: this one makes no stream object
        return int(raw(int(device.partition(":")[2])))
    return int(torch.cuda.current_stream(device).cuda_stream)


def require_torch_gpu(device: str) -> None:
    """``HiCacheError`` unless torch, too, can use the GPU behind ``cuda:N``."""
    import torch

    if not torch.cuda.is_available():
        raise HiCacheError(
            f"device={device!r}: torch {torch.__version__} sees no GPU; install a torch with CUDA"
        )
