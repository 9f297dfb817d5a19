"""A small cache on the CPU, and a request of it that saves, flushes and loads back."""

from __future__ import annotations

from hicache_nsa import HiCache, formats

LAYERS = 4
PAGE_SIZE = 64
PAGES = 6


def small_cache(**options: object) -> HiCache:
    fmt = formats.dsa(LAYERS, page_size=PAGE_SIZE)
    return HiCache(fmt, device_pages=32, host_pages=32, **options)  # type: ignore[arg-type]


def save_flush_load(cache: HiCache) -> None:
    tokens = list(range(PAGES * PAGE_SIZE))
    cache.insert(tokens, cache.allocate(PAGES))
    cache.drain()
    cache.reset()
    cache.engine.hold("h2d")  # so that the first layer is waited for
    load = cache.load_back(cache.match_prefix(tokens))
    assert load is not None
    release_soon(cache)
    for layer in range(LAYERS):
        load.wait_layer(layer)
    load.wait()
    load.release()
    cache.poll()


def release_soon(cache: HiCache, seconds: float = 0.02) -> None:
    import threading

    threading.Timer(seconds, cache.engine.release, ("h2d",)).start()
