from __future__ import annotations

from trace_format import check_events

from hicache_nsa import formats
from hicache_nsa.simulate.cache import SimulatedCache


def test_a_cache_that_moves_no_bytes_records_its_calls() -> None:
    fmt = formats.dsa(2, page_size=64)
    with SimulatedCache(fmt, device_pages=8, host_pages=8) as cache:
        cache.timeline.start()
        cache.insert(list(range(128)), cache.allocate(2))
        cache.match_prefix(list(range(128)))
        names = [each.name for each in check_events(cache.timeline.trace_events())]
    assert names == ["allocate", "insert", "match_prefix"]
