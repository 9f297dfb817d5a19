"""Figures of real traces, where they are: what changes them has changed a policy."""

from __future__ import annotations

import pytest
from conversation import CONVERSATION, GSM8K, needs

from hicache_nsa.formats.models import model_format
from hicache_nsa.simulate.case import Case
from hicache_nsa.simulate.simulation import Simulation
from hicache_nsa.traces import Trace, TraceOptions, read_trace

FORMAT = model_format("deepseek-v3.2")
GIB = 1 << 30


@pytest.fixture(scope="module")
def conversation() -> Trace:
    return read_trace(CONVERSATION, TraceOptions())


def run(trace: Trace, case: Case, flush_at: tuple[int, ...] = ()) -> tuple[int, int, int | None]:
    simulation = Simulation(trace, FORMAT, [case], flush_at=flush_at)
    simulation.run()
    (result,) = simulation.report.results
    return result.device_hit_tokens, result.host_hit_tokens, result.bound_hit_tokens


@needs(CONVERSATION)
def test_the_conversation_trace(conversation: Trace) -> None:
    assert len(conversation.requests) == 12_031
    assert conversation.prompt_tokens == 144_793_823
    assert conversation.largest_pages == 1_971


@needs(CONVERSATION)
@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (Case("lru", "write_through", 32 * GIB, 0), (6_947_392, 0, 32_610_112)),
        (Case("lru", "write_through", 32 * GIB, 64 * GIB), (6_947_392, 2_423_040, 48_169_216)),
        (Case("lru", "write_through", 32 * GIB, 256 * GIB), (6_947_392, 26_304_896, 54_093_952)),
        (Case("slru", "write_through", 32 * GIB, 256 * GIB), (12_913_728, 7_666_368, 54_093_952)),
        (Case("lru", "write_back", 32 * GIB, 256 * GIB), (6_947_392, 27_883_904, 54_093_952)),
        (
            Case("lru", "write_through_selective", 32 * GIB, 64 * GIB),
            (6_947_392, 1_995_968, 48_169_216),
        ),
        (Case("lru", "write_through", 1 << 50, 0), (54_093_952, 0, 54_093_952)),
        (Case("lru", "write_through", 0, 1 << 50), (0, 54_093_952, 54_093_952)),
    ],
    ids=str,
)
def test_hits_of_the_conversation_trace(
    case: Case, expected: tuple[int, int, int], conversation: Trace
) -> None:
    assert run(conversation, case) == expected


@needs(GSM8K)
def test_gsm8k_behind_common_shots() -> None:
    trace = read_trace(GSM8K, TraceOptions(tokenizer="bytes", shots=8))
    assert len(trace.requests) == 1_311
    without = run(trace, Case("lru", "write_through", GIB, 0), (400, 800))
    assert without == (5_441_280, 0, 5_441_280)
    with_host = run(trace, Case("lru", "write_through", GIB, 4 * GIB), (400, 800))
    assert with_host == (5_441_280, 8_320, 5_449_600)
