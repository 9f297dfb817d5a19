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
    ],
    ids=str,
)
def test_hits_of_the_conversation_trace(
    case: Case, expected: tuple[int, int, int], conversation: Trace
) -> None:
    assert run(conversation, case) == expected
