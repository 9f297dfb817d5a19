"""Pools and a transfer engine that move no bytes: copies end, well, when they are submitted.

For simulations only. They stand where ``DevicePool`` and ``TransferEngine`` do, so that all that
decides (match, load back, allocate, insert, evict, write policies, flush) is the cache's own.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

from hicache_nsa._core import Fence, copy_seconds_bounds
from hicache_nsa._core import Timeline as NativeTimeline
from hicache_nsa.errors import HiCacheError
from hicache_nsa.formats import PoolFormat
from hicache_nsa.formats.checks import one_of
from hicache_nsa.histogram import Histogram
from hicache_nsa.pools import DevicePool, HostPool
from hicache_nsa.pools.pool import Pool, page_count
from hicache_nsa.streams import Stream
from hicache_nsa.timeline import Timeline
from hicache_nsa.tokens import PageIds
from hicache_nsa.transfer import DIRECTIONS, CopyTotals, Ticket, TransferEngine


class UnbackedPool(DevicePool):
    """Device pages as ids only: there is no memory behind them.

    Raises:
        ValueError: ``buffers`` are given, which nobody would read or write.
    """

    def __init__(
        self,
        format: PoolFormat,
        buffers: Any = None,
        pages: int | None = None,
        device: str = "cpu",
        reserved: Iterable[int] = (),
    ) -> None:
        if buffers is not None or device != "cpu":
            raise ValueError("a pool without memory has no buffers, and its device is cpu")
        self.format = format
        self.device = device
        self.buffers = {}
        self.views = {}
        Pool.__init__(self, "device", page_count(pages, "device_pages"), reserved)


class EndedTicket(Ticket):
    """The ticket of a copy that has ended well."""

    def __init__(self, pages: int, page_bytes: int) -> None:
        self._pages = pages
        self._page_bytes = page_bytes

    def done(self) -> bool:
        """True."""
        return True

    @property
    def error(self) -> None:
        """None."""
        return None

    def wait_layer(self, layer: int, stream: Stream = None) -> None:
        """Every layer has landed."""

    def layer_done(self, layer: int) -> bool:
        """True."""
        return True

    @property
    def pages(self) -> int:
        """Pages of this copy."""
        return self._pages

    @property
    def nbytes(self) -> int:
        """Bytes that the copy would have moved."""
        return self._pages * self._page_bytes

    @property
    def seconds(self) -> float:
        """0: nothing was moved."""
        return 0.0


class NoCopyEngine(TransferEngine):
    """``TransferEngine`` without copies; ``counters()`` has what was asked for, in 0 seconds each.

    A save and a load go through ``submit`` as in every engine. There is nothing to hold, to fail or
    to wait for, and the memory of the host pool is never made.
    """

    def __init__(
        self,
        device_pool: DevicePool,
        host_pool: HostPool,
        io_backend: str = "auto",
        workers: int = 0,
        **options: Any,
    ) -> None:
        self.device_pool = device_pool
        self.host_pool = host_pool
        self._pid = os.getpid()
        self._holds = dict.fromkeys(DIRECTIONS, 0)
        self.verify = "off"
        self.timeline = Timeline(NativeTimeline())
        ways = ("direct", "kernel", "staged")
        waits = ("exposed_waits", "exposed_wait_ns")
        copied = ("pages", "bytes", "verified", "corrupt", "runs")
        names = ("submitted", "copies", "failed", *copied, *ways, *waits)
        self._totals = {
            direction: CopyTotals(dict.fromkeys(names, 0), Histogram(copy_seconds_bounds()))
            for direction in DIRECTIONS
        }

    def record(self, stream: Stream = None) -> Fence | None:
        """None: nothing is queued anywhere."""
        return None

    def submit(
        self,
        direction: str,
        host_pages: PageIds,
        device_pages: PageIds,
        layers: Sequence[int] | None = None,
        after: Sequence[Fence] = (),
        *,
        layerwise: bool | None = None,
        beside_compute: bool | None = None,
    ) -> Ticket:
        """Count the copy; it has ended."""
        totals = self._totals[one_of(direction, "direction", DIRECTIONS)]
        count = len(host_pages)
        if count != len(device_pages):
            raise ValueError(f"{count} host pages for {len(device_pages)} device pages")
        ticket = EndedTicket(count, self.device_pool.format.page_bytes)
        totals.seconds.add(ticket.seconds)
        totals.counts["submitted"] += 1
        totals.counts["copies"] += 1
        totals.counts["pages"] += count
        totals.counts["bytes"] += ticket.nbytes
        return ticket

    def hold(self, direction: str) -> None:
        """``HiCacheError``: a copy that never runs can't be kept in flight."""
        raise HiCacheError("an engine without copies has none in flight to hold")

    def fail_next(self, direction: str, after_pages: int = 0) -> None:
        """``HiCacheError``: a copy that never runs can't fail."""
        raise HiCacheError("an engine without copies has none that could fail")
