"""What ``hicache bench pin`` is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class PinSettings:
    """``size``: bytes of the pool. ``alloc_size``: bytes that ``cudaHostAlloc`` is timed with.

    ``rounds``: of each case but the one behind a cache. ``device``: ``cpu`` (nothing is
    registered), ``cuda`` or ``cuda:N``. ``memory``: keywords of ``HostMemoryOptions``.
    """

    size: int = 8 * GIB
    alloc_size: int = 8 * GIB
    rounds: int = 3
    device: str = "cpu"
    memory: Mapping[str, Any] = field(default_factory=dict)
