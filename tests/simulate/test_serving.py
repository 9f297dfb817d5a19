"""A simulation finds what a real cache with bytes finds, and never more than the bound."""

from __future__ import annotations

from collections import OrderedDict
from itertools import takewhile
from pathlib import Path

import pytest
from conversation import prompts, write_lines
from served_with_bytes import FORMAT, PAGE, hits_with_bytes

from hicache_nsa.cache.write_policy import WRITE_POLICIES
from hicache_nsa.simulate.case import Case, cases_of
from hicache_nsa.simulate.prefixes import prefix_runs
from hicache_nsa.simulate.serving import Tiers, serve, tiers_of
from hicache_nsa.simulate.simulation import Simulation
from hicache_nsa.traces import Trace, TraceOptions, read_trace
from hicache_nsa.tree import EVICTION_POLICIES

POOLS = ((12, 0), (12, 20), (20, 12), (5, 20), (0, 25), (100, 100))


def trace_of(file: Path, given: list[list[int]]) -> Trace:
    write_lines(file, [{"tokens": one} for one in given])
    return read_trace(file, TraceOptions(page_size=PAGE))


def simulated(trace: Trace, case: Case, flush_at: tuple[int, ...] = ()) -> list[tuple[int, int]]:
    distinct = prefix_runs(trace.requests).pages
    tiers = tiers_of(case, FORMAT.page_bytes, trace, distinct)
    served = serve(trace, case, tiers, FORMAT.page_bytes, flush_at=flush_at)
    pairs = zip(served.device_pages, served.host_pages, strict=True)
    return [(device * PAGE, host * PAGE) for device, host in pairs]


@pytest.mark.parametrize("policy", EVICTION_POLICIES)
@pytest.mark.parametrize("write_policy", WRITE_POLICIES)
@pytest.mark.parametrize("pools", POOLS, ids=str)
def test_the_hits_are_those_of_a_cache_with_bytes(
    policy: str, write_policy: str, pools: tuple[int, int], tmp_path: Path
) -> None:
    device, host = pools
    size = FORMAT.page_bytes
    case = Case(policy, write_policy, device * size, host * size + size // 2)
    for seed, flush_at in enumerate([(), (0, 20, 21, 40, 60)]):
        given = prompts(seed, 60, PAGE)
        found = simulated(trace_of(tmp_path / "trace.jsonl", given), case, flush_at)
        assert found == hits_with_bytes(
            given,
            device_pages=device,
            host_pages=host,
            policy=policy,
            write_policy=write_policy,
            flush_at=flush_at,
        )


@pytest.mark.parametrize("flush_at", [(), (30, 31, 70)], ids=str)
def test_no_policy_exceeds_the_bound(flush_at: tuple[int, ...], tmp_path: Path) -> None:
    trace = trace_of(tmp_path / "trace.jsonl", prompts(11, 120, PAGE))
    size = FORMAT.page_bytes
    cases = cases_of(
        EVICTION_POLICIES,
        WRITE_POLICIES,
        [pages * size for pages in (0, 4, 12, 40)],
        [pages * size for pages in (0, 6, 30, 90)],
    )
    simulation = Simulation(trace, FORMAT, cases, flush_at=flush_at)
    simulation.run()
    assert [result.case for result in simulation.report.results] == cases
    for result in simulation.report.results:
        assert result.bound_hit_tokens is not None
        assert 0 <= result.hit_tokens <= result.bound_hit_tokens <= result.prompt_tokens
        missed = result.missed_tokens
        assert missed is not None
        whole = sum(len(request.pages) for request in trace.requests) * PAGE
        assert (
            result.hit_tokens + sum(missed.values()) <= whole
        )  # a host hit may be too short to load
        assert missed["cold"] == simulation.report.distinct_pages * PAGE
        assert bool(missed["flushed"]) <= bool(flush_at)
    assert any(result.host_hit_tokens for result in simulation.report.results)
    assert any(result.missed_tokens["evicted"] for result in simulation.report.results)


def test_more_room_raises_the_bound_and_the_hits_of_lru(tmp_path: Path) -> None:
    trace = trace_of(tmp_path / "trace.jsonl", prompts(5, 150, PAGE))
    size = FORMAT.page_bytes
    cases = cases_of(["lru"], ["write_through"], [12 * size], [n * size for n in range(0, 120, 10)])
    simulation = Simulation(trace, FORMAT, cases)
    simulation.run()
    results = simulation.report.results
    for figures in (
        [result.bound_hit_tokens for result in results],
        [result.hit_tokens for result in results],
    ):
        assert figures == sorted(figures)
        assert figures[0] < figures[-1]
    assert len({result.device_hit_tokens for result in results}) == 1  # host changes no device hit


def test_room_for_all_finds_all_but_the_first_sight(tmp_path: Path) -> None:
    trace = trace_of(tmp_path / "trace.jsonl", prompts(6, 80, PAGE))
    whole = sum(len(request.pages) for request in trace.requests)
    distinct = prefix_runs(trace.requests).pages
    for case in (
        Case("lru", "write_through", 10**12, 0),
        Case("mru", "write_back", 0, 10**12),
    ):
        found = simulated(trace, case)
        assert sum(map(sum, found)) == (whole - distinct) * PAGE


def test_a_flush_leaves_what_host_has(tmp_path: Path) -> None:
    given = [list(range(20))] * 3
    trace = trace_of(tmp_path / "trace.jsonl", given)
    big = 100 * FORMAT.page_bytes
    assert simulated(trace, Case("lru", "write_through", big, big), (1,)) == [
        (0, 0), (0, 20), (20, 0),
    ]  # fmt: skip
    assert simulated(trace, Case("lru", "write_through", big, 0), (1,)) == [
        (0, 0), (0, 0), (20, 0),
    ]  # fmt: skip
    assert simulated(trace, Case("lru", "write_back", big, big), (2,)) == [
        (0, 0), (20, 0), (0, 0),
    ]  # fmt: skip


def test_whole_pages_only_the_last_one_included(tmp_path: Path) -> None:
    trace = trace_of(tmp_path / "trace.jsonl", [[1] * 8, [1] * 8, [1] * 11, [1] * 3, []])
    big = 100 * FORMAT.page_bytes
    found = simulated(trace, Case("lru", "write_through", big, 0))
    assert found == [(0, 0), (8, 0), (8, 0), (0, 0), (0, 0)]


def test_tiers_are_no_larger_than_the_trace_needs(tmp_path: Path) -> None:
    trace = trace_of(tmp_path / "trace.jsonl", [[1] * 8, [2] * 20])
    size = FORMAT.page_bytes
    assert tiers_of(Case("lru", "write_through", 3 * size + 1, 1 << 60), size, trace, 7) == Tiers(
        device=3, host=7, lent=2, distinct=7
    )
    assert tiers_of(Case("lru", "write_through", 1 << 60, 0), size, trace, 7) == Tiers(7, 0, 0, 7)


def test_what_does_not_fit_the_trace_is_refused(tmp_path: Path) -> None:
    trace = trace_of(tmp_path / "trace.jsonl", [[1] * 8])
    with pytest.raises(ValueError, match="a flush at request 2, but the trace has 1 requests"):
        Simulation(trace, FORMAT, [], flush_at=(1, 2))
    other = read_trace(tmp_path / "trace.jsonl", TraceOptions(page_size=8))
    with pytest.raises(ValueError, match="in pages of 8 tokens, the format has 4"):
        Simulation(other, FORMAT, [])


def found_by_a_list(trace: Trace, pages: int) -> list[int]:
    """Tokens that a list of the pages in the order of their last use finds, written without a tree:
    of the pages of one request the first one counts as used last.
    """
    order: OrderedDict[tuple[int, ...], None] = OrderedDict()
    found = []
    for request in trace.requests:
        prefixes = [tuple(request.pages[: end + 1].tolist()) for end in range(len(request.pages))]
        hit = list(takewhile(order.__contains__, prefixes))
        found.append(len(hit) * PAGE)
        for prefix in reversed(prefixes):
            order[prefix] = None
            order.move_to_end(prefix)
        while len(order) > pages:
            order.popitem(last=False)
    return found


@pytest.mark.parametrize("seed", range(10))
def test_lru_is_that_of_a_plain_list(seed: int, tmp_path: Path) -> None:
    trace = trace_of(tmp_path / "trace.jsonl", prompts(seed, 80, PAGE))
    size = FORMAT.page_bytes
    for device, host in ((0, 0), (4, 9), (9, 0), (9, 20), (15, 60)):
        found = simulated(trace, Case("lru", "write_through", device * size, host * size))
        on_device, anywhere = (found_by_a_list(trace, max(n, device)) for n in (device, host))
        assert [hit for hit, _ in found] == on_device
        assert [sum(hits) for hits in found] == anywhere
