"""A small cache on the CPU, and a request of it that saves, flushes and loads back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from hicache_nsa import HiCache, formats

LAYERS = 4
PAGE_SIZE = 64
PAGES = 6


def small_cache(**options: object) -> HiCache:
    fmt = formats.dsa(LAYERS, page_size=PAGE_SIZE)
    return HiCache(fmt, device_pages=32, host_pages=32, **options)  # type: ignore[arg-type]


def save_flush_load(cache: HiCache, waited: Callable[[], bool]) -> None:
    """The load begins once ``waited`` says that somebody waits for its first layer."""
    tokens = list(range(PAGES * PAGE_SIZE))
    cache.insert(tokens, cache.allocate(PAGES))
    cache.drain()
    cache.reset()
    cache.engine.hold("h2d")
    load = cache.load_back(cache.match_prefix(tokens))
    assert load is not None
    releasing = release_once(cache, waited)
    for layer in range(LAYERS):
        load.wait_layer(layer)
    load.wait()
    releasing.join()
    load.release()
    cache.poll()


def has_waited(cache: HiCache, pieces: int = 1) -> Callable[[], bool]:
    """Whether so many pieces of waits are on the timeline: one every 0.1 s."""

    def waited() -> bool:
        return sum(span.kind == "wait" for span in cache.timeline.spans()) >= pieces

    return waited


def release_once(cache: HiCache, waited: Callable[[], bool]) -> threading.Thread:
    """A thread that lets loads begin then, after 30 s at the latest."""

    def release() -> None:
        limit = time.monotonic() + 30
        while not waited() and time.monotonic() < limit:
            time.sleep(0.001)
        cache.engine.release("h2d")

    thread = threading.Thread(target=release)
    thread.start()
    return thread
