"""CpuStream: order, failures, cancelled work, the end."""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace

import pytest

from hicache_nsa import CpuStream, HiCacheError
from hicache_nsa.cuda_streams import stream_handle
from hicache_nsa.streams import check_stream, host_fence


def test_work_runs_in_order_and_fences_say_so() -> None:
    gate, seen = threading.Event(), []
    with CpuStream() as stream:
        stream.enqueue(gate.wait)
        stream.enqueue(seen.append, 1)
        fence = stream.fence()
        stream.enqueue(seen.append, 2)
        assert not fence.done() and not fence.wait(0.01)
        gate.set()
        assert fence.wait(10) and seen[:1] == [1]
        stream.synchronize()
        assert seen == [1, 2]
        assert host_fence(stream) is None


def test_a_failure_shows_in_its_future_and_stops_nothing() -> None:
    with CpuStream() as stream:
        failed = stream.enqueue(int, "x")
        after = stream.enqueue(int, "7")
        assert after.result(10) == 7
        with pytest.raises(ValueError):
            failed.result(10)
        assert stream.fence().done()


def test_cancelled_work_is_passed_over_and_fences_still_end() -> None:
    gate = threading.Event()
    with CpuStream() as stream:
        stream.enqueue(gate.wait)
        last = stream.enqueue(int)
        fence = stream.fence()
        assert last.cancel() and not fence.done()
        gate.set()
        assert fence.wait(10)


def test_close_runs_what_is_queued_and_refuses_more() -> None:
    seen = []
    stream = CpuStream()
    stream.enqueue(seen.append, 1)
    stream.close()
    stream.close()
    assert seen == [1] and stream.fence().done()
    with pytest.raises(HiCacheError, match="closed"):
        stream.enqueue(seen.append, 2)
    assert stream.fence().done()


@pytest.mark.parametrize("stream", [3, "s", object(), True, 1.5])
def test_other_streams_are_refused(stream) -> None:
    with pytest.raises((TypeError, ValueError), match="stream"):
        check_stream(stream, "cpu")


def test_streams_of_the_cpu() -> None:
    check_stream(None, "cpu")
    check_stream(0, "cpu")
    torch = pytest.importorskip("torch")
    check_stream(torch.cpu.current_stream(), "cpu")


@pytest.mark.parametrize("raw", [True, False])
def test_without_a_stream_it_is_the_current_one_of_torch(monkeypatch, raw) -> None:
    handles = {"cuda:0": 70, "cuda:13": 83}
    cuda = SimpleNamespace(
        is_initialized=lambda: True,
        current_stream=lambda device: SimpleNamespace(cuda_stream=handles[device]),
    )
    private = {"_cuda_getCurrentRawStream": lambda index: handles[f"cuda:{index}"]} if raw else {}
    torch = SimpleNamespace(cuda=cuda, _C=SimpleNamespace(**private))
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert [stream_handle(None, device) for device in handles] == [70, 83]
    cuda.is_initialized = lambda: False
    assert stream_handle(None, "cuda:13") == 0
    monkeypatch.delitem(sys.modules, "torch")
    assert stream_handle(None, "cuda:0") == 0
