"""``hicache bench pin``: touch, touch and register, cudaHostAlloc, and the same behind a cache."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from hicache_nsa import _core, formats
from hicache_nsa.bench.pin.beats import heartbeat, launches
from hicache_nsa.bench.pin.report import ALLOCATED, PINNED, PinReport
from hicache_nsa.bench.pin.settings import GIB, PinSettings
from hicache_nsa.cache import HiCache
from hicache_nsa.errors import HiCacheError
from hicache_nsa.pools import DevicePool, HostPool, check_device
from hicache_nsa.transfer import TransferEngine

Step = Callable[[str], None]
SYSTEM_PAGE = 4096
LAYERS = 61
DEVICE_PAGES = 4
IDLE_SECONDS = 1.0
POLL_SECONDS = 0.002
TOUCHED, BACKGROUND = "pin/touch", "pin/background"
NO_GPU = "there is no GPU here: nothing is registered"


class Round(NamedTuple):
    """Seconds until the memory was ready and until it was given back, and what else there is."""

    seconds: float
    release: float
    more: dict[str, object]


class PinBench:
    """Measure what ``settings`` ask for. Use as a context manager, run once.

    Raises:
        ValueError: a pool smaller than a page.
        HiCacheError: a device this build or this machine does not have.
    """

    def __init__(self, settings: PinSettings) -> None:
        self.settings = settings
        self._format = formats.dsa(LAYERS)
        self._device = check_device(settings.device)
        pool = self._pool()  # no memory yet: only its checks
        self._nbytes = pool.nbytes
        self._gpu = self._device != "cpu"
        cases = [("discarded", self._discard), (TOUCHED, self._touch)]
        if self._gpu:
            cases += [(PINNED, self._pin), (ALLOCATED, self._alloc)]
        self._cases = [*cases, (BACKGROUND, self._serve)]
        self.report = PinReport(
            {**asdict(settings), "page_bytes": self._format.page_bytes},
            {"device": self._device, **_gpu_of(self._device), "numa_nodes": _nodes()},
            os.getloadavg()[0],
            left_out={} if self._gpu else {PINNED: NO_GPU, ALLOCATED: NO_GPU},
        )

    @property
    def steps(self) -> int:
        """Cases, and a first one that does not count: memory of a virtual machine may come late."""
        return len(self._cases)

    def run(self, step: Step = lambda label: None) -> None:
        """Measure the cases into ``report``, calling ``step`` with a case's id when it is done.

        ^C ends it early; the report has the cases that were done.

        Raises:
            HiCacheError: no memory, or memory that cannot be registered.
        """
        try:
            for id, measure in self._cases:
                measure()
                step(id)
        except KeyboardInterrupt:
            self.report.interrupted = True

    def __enter__(self) -> PinBench:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    # -- cases ------------------------------------------------------------------------------------

    def _discard(self) -> None:
        if self._gpu:
            self._pin_once()
        else:
            self._touch_once()

    def _touch(self) -> None:
        self._add(TOUCHED, self._nbytes, self._touch_once)

    def _pin(self) -> None:
        self._add(PINNED, self._nbytes, self._pin_once)

    def _alloc(self) -> None:
        self._add(ALLOCATED, self.settings.alloc_size, self._alloc_once)

    def _add(self, id: str, nbytes: int, once: Callable[[], Round]) -> None:
        """Medians of the rounds; each of them has to be right."""
        rounds = [once() for _ in range(self.settings.rounds)]
        self.report.add(
            id,
            nbytes,
            median(each.seconds for each in rounds),
            median(each.release for each in rounds),
            seconds_rounds=[each.seconds for each in rounds],
            **{**rounds[-1].more, "verified": all(each.more["verified"] for each in rounds)},
        )

    def _touch_once(self) -> Round:
        begun = time.perf_counter()
        pool = self._pool(prepare_first=self._nbytes)
        pool.memory_for(self._device)
        seconds = time.perf_counter() - begun
        more = {"verified": verify(pool), **_kind(pool)}
        return Round(seconds, _timed(pool.close), more)

    def _pin_once(self) -> Round:
        device = DevicePool(self._format, pages=DEVICE_PAGES, device=self._device)
        begun = time.perf_counter()
        pool = self._pool()
        engine = TransferEngine(device, pool, pin_memory=True, link_curve=_core.LinkCurve.typical())
        seconds = time.perf_counter() - begun
        more = {"verified": verify(pool), **_kind(pool)}

        def release() -> None:
            engine.close()
            pool.close()

        return Round(seconds, _timed(release), more)

    def _alloc_once(self) -> Round:
        nbytes = self.settings.alloc_size
        try:
            seconds, release = _core.measure_cuda_host_alloc(self._device, nbytes)
        except RuntimeError as error:
            raise HiCacheError(str(error)) from error
        return Round(seconds, release, {"verified": True})

    def _serve(self) -> None:
        """A cache that is used while its memory gets ready, beside other Python threads."""
        with ExitStack() as stack:
            beats = {"heartbeat": stack.enter_context(heartbeat())}
            if self._gpu:
                beats["launch"] = stack.enter_context(launches(self._device))

            def longest(phase: str) -> dict[str, float]:
                return {
                    f"{phase}_{name}_longest_ms": 1e3 * each.longest()
                    for name, each in beats.items()
                }

            time.sleep(IDLE_SECONDS)
            gaps = longest("idle")
            begun = time.perf_counter()
            cache = HiCache(
                self._format,
                device=self._device,
                device_pages=DEVICE_PAGES,
                host_size=self.settings.size,
                pin_memory=True if self._gpu else "auto",
                link_curve=_core.LinkCurve.typical() if self._gpu else None,
                **self.settings.memory,
            )
            first = time.perf_counter() - begun
            gaps |= longest("first")
            at_first = cache.stats().host
            while cache.host_pool.growing:
                cache.poll()
                time.sleep(POLL_SECONDS)
            seconds = time.perf_counter() - begun
            gaps |= longest("background")
            pool = cache.host_pool
            right = pool.ready_bytes == pool.nbytes and cache.stats().host.total_pages > 0
            more = {"verified": right and verify(pool), **_kind(pool)}
            longest("verifying")
            release = _timed(cache.close)
            gaps |= longest("release")
        self.report.add(
            BACKGROUND,
            self._nbytes,
            seconds,
            release,
            first_ready_seconds=first,
            first_ready_bytes=at_first.ready_bytes,
            **gaps,
            **more,
        )

    def _pool(self, **options: Any) -> HostPool:
        return HostPool(
            self._format, size=self.settings.size, **{**self.settings.memory, **options}
        )


def verify(pool: HostPool) -> bool:
    """Write the first and the last byte of each page of the system, then read them all back."""
    pages = pool.nbytes // SYSTEM_PAGE
    rows = pool.view()[: pages * SYSTEM_PAGE].reshape(pages, SYSTEM_PAGE)
    piece = GIB // SYSTEM_PAGE
    first = np.arange(piece, dtype=np.uint32).astype(np.uint8)
    for at in range(0, pages, piece):
        part = rows[at : at + piece]
        part[:, 0] = first[: len(part)] + np.uint8(at // piece % 251)
        part[:, -1] = ~part[:, 0]
    for at in range(0, pages, piece):
        part = rows[at : at + piece]
        wanted = first[: len(part)] + np.uint8(at // piece % 251)
        if not (np.array_equal(part[:, 0], wanted) and np.array_equal(part[:, -1], ~wanted)):
            return False
    return True


def _timed(call: Callable[[], None]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def _kind(pool: HostPool) -> dict[str, object]:
    kind = pool.memory_kind
    return {
        "huge_pages": kind.huge_pages,
        "huge_page_bytes": pool.huge_page_bytes(),
        "numa_node": kind.numa_node,
        "pinned_bytes": kind.pinned_bytes,
    }


def _gpu_of(device: str) -> dict[str, object]:
    return {} if device == "cpu" else {"gpu": _core.cuda_device_identity(device)}


def _nodes() -> int:
    from hicache_nsa.pools.numa import count_nodes

    return count_nodes()
