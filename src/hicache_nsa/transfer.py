"""Copies between a device pool and a host pool, asynchronous, with an event a layer.

``TransferEngine`` is usable alone; ``HiCache`` is built on it. One call submits a copy of all its
pages and layers and returns a ``Ticket`` at once.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hicache_nsa import _core
from hicache_nsa.cuda_streams import stream_handle
from hicache_nsa.engine_options import check_engine_options
from hicache_nsa.errors import HiCacheError, native_check
from hicache_nsa.formats.checks import one_of
from hicache_nsa.histogram import Histogram
from hicache_nsa.link_curve import machine_curve
from hicache_nsa.pools import DevicePool, HostPool, native_format
from hicache_nsa.streams import Stream, host_fence
from hicache_nsa.ticket import Ticket as Ticket
from hicache_nsa.ticket import seconds_of as seconds_of
from hicache_nsa.timeline import Timeline
from hicache_nsa.tokens import PageIds, int64_array

IO_BACKENDS = ("auto", "kernel", "direct", "staged")
H2D = "h2d"
D2H = "d2h"
_HINTS = (None, True, False)
DIRECTIONS = (H2D, D2H)


@dataclass(frozen=True)
class CopyTotals:
    """What one direction has done up to one moment. counts: see ``TransferEngine.counters``.

    seconds: how long the copies that ended took, see ``TransferEngine.copy_seconds``.
    """

    counts: dict[str, int]
    seconds: Histogram

    def copy(self) -> CopyTotals:
        """The same, for whoever keeps it."""
        return CopyTotals(dict(self.counts), self.seconds.copy())


class TransferEngine:
    """Moves pages between ``device_pool`` and ``host_pool``, which must have one format.

    In one direction copies run in the order of their submission; a copy that touches pages of one
    still in flight the other way runs after it.
    io_backend: ``kernel`` (a few blocks of the GPU gather and scatter), ``direct`` (copy engine),
        ``staged`` (copy engine between host and a ring on the device, a few blocks between ring and
        pages) or ``auto`` (chosen for each copy by the link curve); a CPU has host threads for all.
    workers: host threads a direction on the CPU. For a GPU: kernel_blocks, of the kernels;
        staging_bytes, device memory of the ring of a direction (default 32 MiB, at least twice
        the largest layer of a page); pin_chunk_bytes, host memory is pinned in such chunks.
        0 chooses.
    link_curve: what copies cost, for ``auto``; None: measured once a machine, see the module
        ``link_curve``.
    verify: ``all`` keeps a digest of each page and layer that is saved (``host_pool.digests``) and
        compares loads with them: one that brings other bytes fails. ``sample`` compares about one
        page and layer in 16, others each time; ``off`` none. Layers are announced before they are
        compared: what was computed behind a load counts once it is done without an ``error``.
    pin_memory: ``auto`` pins the host pool for a GPU; chunks that the system refuses stay pageable,
        with a warning, and their pages are copied slower. True raises then, False pins none.
    time_waits: measure how long layers are really waited for (``counters()``). A thread that waits
        reads a clock twice; on a GPU a wait for layers that have not landed records an event on the
        waiting stream, and the events behind layers keep the time. False counts none.
    wait_ready: until all of the host pool is. False: see ``HostPool.begin_service``.
    timeline: records copies and waits for layers once ``timeline.start()`` is called.
    An engine that is dropped without ``close()`` finishes its copies first: they use its pools.

    Raises:
        ValueError: formats differ (``fp8`` rows against ``fp8_ds_mla`` ...), before memory is made.
    """

    _native: _core.TransferEngine | None = None

    def __init__(
        self,
        device_pool: DevicePool,
        host_pool: HostPool,
        io_backend: str = "auto",
        workers: int = 0,
        *,
        kernel_blocks: int = 0,
        pin_memory: bool | str = "auto",
        pin_chunk_bytes: int | str = 0,
        staging_bytes: int | str = 0,
        link_curve: _core.LinkCurve | None = None,
        verify: str = "off",
        time_waits: bool = True,
        wait_ready: bool = True,
    ) -> None:
        if device_pool.format != host_pool.format:
            raise ValueError(
                f"the device pool has format {device_pool.format.fingerprint}, "
                f"the host pool {host_pool.format.fingerprint}"
            )
        one_of(io_backend, "io_backend", IO_BACKENDS)
        options = check_engine_options(
            {
                "workers": workers,
                "kernel_blocks": kernel_blocks,
                "pin_chunk_bytes": pin_chunk_bytes,
                "staging_bytes": staging_bytes,
                "link_curve": link_curve,
                "verify": verify,
                "time_waits": time_waits,
            },
            "TransferEngine",
        )
        self.device_pool = device_pool
        self.host_pool = host_pool
        self.verify = verify
        self._pid = os.getpid()
        self._holds = dict.fromkeys(DIRECTIONS, 0)
        self._totals: dict[str, CopyTotals] = {}
        try:
            self._native = _core.TransferEngine(
                native_format(device_pool.format),
                device_pool.device,
                device_pool.num_pages,
                device_pool.native_buffers,
                host_pool.memory_for(device_pool.device),
                host_pool.native_layout,
                options["workers"],
                io_backend,
                options["kernel_blocks"],
                pinning(pin_memory),
                options["pin_chunk_bytes"],
                options["staging_bytes"],
                _curve(options["link_curve"], device_pool.device),
                verify,
                host_pool.digests,
                options["time_waits"],
            )
        except RuntimeError as error:
            raise HiCacheError(str(error)) from error
        self.timeline = Timeline(self._native.timeline)
        if self._native.warning:
            warnings.warn(self._native.warning, RuntimeWarning, stacklevel=2)
        try:
            host_pool.begin_service(wait_ready)
        except BaseException:
            self.close()  # whoever holds the error holds this object, too
            raise

    def save(
        self,
        device_pages: Any,
        host_pages: Any,
        *,
        stream: Stream = None,
        beside_compute: bool | None = None,
    ) -> Ticket:
        """Copy device pages to host pages (same length), after the work queued on ``stream``.

        beside_compute: whether a model fills the device meanwhile, which should not feel the copy;
            None: if ``stream`` has work queued now. For the choice of the way only.

        Raises:
            ValueError: lengths differ, an id is outside its pool, or a target page repeats.
        """
        return self._ordered(D2H, host_pages, device_pages, None, stream, False, beside_compute)

    def load(
        self,
        host_pages: Any,
        device_pages: Any,
        *,
        layers: Sequence[int] | None = None,
        stream: Stream = None,
        layerwise: bool = True,
        beside_compute: bool | None = None,
    ) -> Ticket:
        """Copy host pages to device pages (same length), layer by layer in the order of ``layers``.

        layers: default all, ascending. layerwise: whether layers are awaited one by one; False
            lets all land together, where that is faster. beside_compute: as in ``save``.
        Raises as ``save`` does.
        """
        return self._ordered(
            H2D, host_pages, device_pages, layers, stream, layerwise, beside_compute
        )

    def _ordered(
        self,
        direction: str,
        host_pages: Any,
        device_pages: Any,
        layers: Sequence[int] | None,
        stream: Stream,
        layerwise: bool,
        beside_compute: bool | None,
    ) -> Ticket:
        fence = self.record(stream)
        host = int64_array(host_pages, "host_pages")
        device = int64_array(device_pages, "device_pages")
        after = [] if fence is None else [fence]
        return self.submit(
            direction,
            host,
            device,
            layers,
            after,
            layerwise=layerwise,
            beside_compute=beside_compute,
        )

    def record(self, stream: Stream = None) -> _core.Fence | None:
        """A fence behind everything queued on ``stream`` now; None if all of it is done.

        Raises:
            HiCacheError: the stream is being captured into a CUDA graph (which goes on).
        """
        device = self.device_pool.device
        if device == "cpu":
            return host_fence(stream)
        handle = stream_handle(stream, device)
        native = self._open()
        try:
            return native.record(handle)
        except RuntimeError as error:
            raise HiCacheError(str(error)) from error

    def submit(
        self,
        direction: str,
        host_pages: PageIds,
        device_pages: PageIds,
        layers: Sequence[int] | None = None,
        after: Sequence[_core.Fence] = (),
        *,
        layerwise: bool | None = None,
        beside_compute: bool | None = None,
    ) -> Ticket:
        """The same with explicit fences: the copy starts when all of ``after`` are done.

        layerwise=None: loads are, saves are not.
        """
        if not (layerwise in _HINTS and beside_compute in _HINTS):
            raise TypeError(
                "layerwise and beside_compute must be True, False or None, got "
                f"{layerwise!r} and {beside_compute!r}"
            )
        native = self._open().submit(
            direction,
            host_pages,
            device_pages,
            None if layers is None else list(layers),
            list(after),
            layerwise,
            beside_compute,
        )
        return Ticket(native, self.device_pool.device)

    def in_flight(self, direction: str) -> int:
        """Copies of that direction (``h2d`` or ``d2h``) that have not ended."""
        one_of(direction, "direction", DIRECTIONS)
        return 0 if self._native is None else self._open().in_flight(direction)

    def hold(self, direction: str) -> None:
        """Test hook: keep copies of that direction in flight until ``release``."""
        self._open().hold(one_of(direction, "direction", DIRECTIONS))
        self._holds[direction] += 1

    def held(self, direction: str) -> bool:
        """Whether a ``hold`` keeps copies of that direction in flight."""
        return self._holds[one_of(direction, "direction", DIRECTIONS)] > 0

    def release(self, direction: str) -> None:
        """Undo one ``hold``; a no-op once the engine is closed."""
        native = self._native
        if native is not None and self._pid == os.getpid():
            native.release(one_of(direction, "direction", DIRECTIONS))
            self._holds[direction] -= 1

    def fail_next(self, direction: str, after_pages: int = 0) -> None:
        """Test hook: the next copy of that direction fails after ``after_pages`` whole pages."""
        self._open().fail_next(one_of(direction, "direction", DIRECTIONS), after_pages)

    def counters(self) -> dict[str, dict[str, int]]:
        """By direction: copies, pages and bytes moved, pages verified and those of them that were
        corrupt, runs that copies were merged into, how many copies took each way of a GPU
        (``direct``, ``kernel``, ``staged``), and exposed waits.

        exposed_waits: waits for a layer (``wait_layer``) that had not landed when it was needed, by
        whoever waited, also for copies that failed; exposed_wait_ns: what they took in all,
        nanoseconds. Each is counted when it is over: on a GPU once the layer, or the failed copy,
        is seen to have landed. ``wait`` for the end of a copy is none. 0 without ``time_waits``.
        """
        return {direction: totals.counts for direction, totals in self.totals().items()}

    def copy_seconds(self, direction: str) -> Histogram:
        """How long the copies of that direction took that have ended, in seconds: from the start of
        copying to the end. Failed and empty ones count, too; their waiting to start does not.
        """
        one_of(direction, "direction", DIRECTIONS)
        return self.totals()[direction].seconds

    def totals(self) -> dict[str, CopyTotals]:
        """``counters()`` and ``copy_seconds()`` of each direction, of one moment."""
        if self._native is None:
            return {direction: totals.copy() for direction, totals in self._totals.items()}
        return _totals(self._open())

    def check(self) -> None:
        """Raise ``InvariantError`` if the engine's books don't balance."""
        if self._native is not None:
            native_check(self._open())

    def close(self) -> None:
        """Finish what is in flight (holds open), end the threads, drop the memory. Idempotent."""
        native = self._native
        if native is not None and self._pid == os.getpid():
            native.close()
            self._totals = _totals(native)
            self._native = None

    def __del__(self) -> None:
        self.close()  # before the pools go: copies in flight read and write their memory

    def _open(self) -> _core.TransferEngine:
        if self._native is None:
            raise HiCacheError("the transfer engine is closed")
        if self._pid != os.getpid():
            raise HiCacheError(
                "the transfer engine belongs to another process: a forked child has none of its "
                "threads; make the engine after the fork"
            )
        return self._native


def _totals(native: _core.TransferEngine) -> dict[str, CopyTotals]:
    return {
        direction: CopyTotals(counts, Histogram(_core.copy_seconds_bounds(), ended, seconds))
        for direction, (counts, ended, seconds) in native.totals().items()
    }


def _curve(given: _core.LinkCurve | None, device: str) -> _core.LinkCurve | None:
    """What the caller gave, else the machine's; a CPU has none."""
    return machine_curve(device) if given is None and device != "cpu" else given


def pinning(pin_memory: Any) -> str:
    """``pin_memory`` (auto, True or False) in the words of the C++ core."""
    if isinstance(pin_memory, bool):
        return "always" if pin_memory else "never"
    return str(one_of(pin_memory, "pin_memory", ("auto",)))
