"""How long copies took, as the transfer engine tells it."""

from __future__ import annotations

import pytest

import hicache_nsa as hc
from hicache_nsa import testing
from hicache_nsa.histogram import Histogram
from hicache_nsa.simulate.cache import SimulatedCache

FORMAT = hc.formats.dsa(3, page_size=4, kv_lora_rank=128, rope_head_dim=4)


@pytest.fixture
def engine():
    pools = hc.DevicePool(FORMAT, pages=8), hc.HostPool(FORMAT, pages=8)
    engine = hc.TransferEngine(*pools)
    yield engine
    engine.close()


def test_each_copy_is_in_the_range_of_its_ticket(engine: hc.TransferEngine) -> None:
    expected = engine.copy_seconds("d2h")
    assert expected.count == 0 and expected.bounds[0] == 1e-4 and expected.bounds[-1] == 10
    for pages in ([0], [1, 2], [], [3, 4, 5]):
        ticket = engine.save(pages, pages)
        assert ticket.wait_end(30)
        expected.add(ticket.seconds)
    assert engine.copy_seconds("d2h") == expected
    assert engine.copy_seconds("h2d").count == 0


def test_a_failed_copy_counts_and_one_in_flight_does_not(engine: hc.TransferEngine) -> None:
    testing.fail_next(engine, "h2d")
    assert engine.load([0, 1], [0, 1]).wait_end(30)
    with testing.hold(engine, "h2d"):
        ticket = engine.load([0], [0])
        assert engine.copy_seconds("h2d").count == 1
    assert ticket.wait_end(30)
    assert engine.copy_seconds("h2d").count == 2
    engine.check()


def test_the_end_of_the_engine_changes_nothing(engine: hc.TransferEngine) -> None:
    assert engine.save([0], [0]).wait_end(30)
    before = engine.totals()
    engine.close()
    assert engine.totals() == before and before["d2h"].seconds.count == 1
    assert engine.copy_seconds("d2h") == before["d2h"].seconds
    assert engine.counters()["d2h"]["copies"] == 1


def test_what_is_handed_out_is_the_callers_own(engine: hc.TransferEngine) -> None:
    for closed in (False, True):
        engine.copy_seconds("d2h").add(1.0)
        engine.counters()["d2h"]["copies"] += 1
        assert engine.copy_seconds("d2h").count == engine.counters()["d2h"]["copies"] == 0
        if not closed:
            engine.close()


def test_an_unknown_direction_is_refused(engine: hc.TransferEngine) -> None:
    with pytest.raises(ValueError, match="direction"):
        engine.copy_seconds("down")


def test_histograms_are_equal_by_what_they_have_seen() -> None:
    one, two = Histogram((1, 2)), Histogram((1, 2))
    one.add(1.5)
    assert one != two and one != "Histogram"
    two.add(1.5)
    assert one == two and one.copy() == one and one.counts == [0, 1, 0]
    assert Histogram((1, 3), [0, 1, 0], 1.5) != one
    assert repr(one) == "Histogram(bounds=(1, 2), counts=[0, 1, 0], total=1.5)"
    with pytest.raises(ValueError, match="2 bounds make 3 ranges, got 2 counts"):
        Histogram((1, 2), [0, 1])


def test_a_snapshot_stays_what_it_was() -> None:
    for kind in (hc.HiCache, SimulatedCache):
        with kind(FORMAT, device_pages=8, host_pages=8) as cache:
            before = cache.stats()
            cache.insert(range(16), cache.allocate(4))
            assert cache.drain(30)
            assert (before.d2h.seconds.count, cache.stats().d2h.seconds.count) == (0, 1)
