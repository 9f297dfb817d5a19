"""The engine without copies stands where a real one does."""

from __future__ import annotations

import numpy as np
import pytest

import hicache_nsa as hc
from hicache_nsa.simulate.cache import SimulatedCache
from hicache_nsa.simulate.no_copy import NoCopyEngine, UnbackedPool
from hicache_nsa.testing import fail_next, hold

FORMAT = hc.formats.dsa(61)


def test_a_cache_of_terabytes_takes_no_memory() -> None:
    with SimulatedCache(FORMAT, device_pages=100_000, host_size="4TiB") as cache:
        tokens = np.arange(6_400)
        cache.insert(tokens, cache.allocate(100))
        report = cache.reset()
        assert report.kept_host_tokens == 6_400
        match = cache.match_prefix(tokens)
        assert match.host_tokens == 6_400
        with cache.load_back(match) as load:
            load.wait_layer(60)
            assert load.done() and load.error is None and load.wait(0)
        stats = cache.stats()
        assert stats.load_back_bytes == stats.saved_bytes == 100 * FORMAT.page_bytes
        assert cache.engine.counters()["h2d"] == cache.engine.counters()["d2h"]
        assert cache.engine.counters()["h2d"]["bytes"] == 100 * FORMAT.page_bytes
        assert cache.drain(0) and cache.in_flight == 0
        cache.check()


def test_pool_engine_and_ticket_alone() -> None:
    device, host = UnbackedPool(FORMAT, pages=8), hc.HostPool(FORMAT, pages=10**6)
    engine = NoCopyEngine(device, host)
    ticket = engine.save(device.allocate(3), host.allocate(3))
    assert (ticket.pages, ticket.nbytes, ticket.seconds) == (3, 3 * FORMAT.page_bytes, 0.0)
    assert ticket.layer_done(0) and ticket.wait(0) and ticket.wait_end()
    assert engine.in_flight("d2h") == 0 and not engine.held("h2d")
    engine.check()
    engine.close()
    assert engine.counters()["d2h"]["copies"] == 1


def test_what_it_cannot_do_is_refused() -> None:
    with pytest.raises(ValueError, match="has no buffers"):
        UnbackedPool(FORMAT, {"latent": []}, 8)
    with pytest.raises(ValueError, match="its device is cpu"):
        UnbackedPool(FORMAT, pages=8, device="cuda")
    engine = NoCopyEngine(UnbackedPool(FORMAT, pages=8), hc.HostPool(FORMAT, pages=8))
    with pytest.raises(ValueError, match="2 host pages for 1 device pages"):
        engine.load([0, 1], [0])
    with SimulatedCache(FORMAT, device_pages=8, host_pages=8) as cache:
        with pytest.raises(hc.HiCacheError, match="none in flight to hold"), hold(cache, "h2d"):
            pass
        with pytest.raises(hc.HiCacheError, match="none that could fail"):
            fail_next(cache, "d2h")
