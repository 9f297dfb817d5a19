"""The bench of overlap on the CPU backend, small."""

from __future__ import annotations

from typing import Any

import pytest

import hicache_nsa as hc
from hicache_nsa.bench.overlap import OverlapBench, Times, overlap_cases
from hicache_nsa.bench.report import BenchReport
from hicache_nsa.bench.settings import OverlapSettings

KEYS = {
    *("id", "direction", "bytes", "seconds_median", "gbps", "share_of_peak", "verified", "ratio"),
    *("copy_seconds", "compute_seconds", "together_seconds", "over", "within_bound"),
    *("submit_us", "wait_layers_us", "device_together_seconds", "device_over"),
}


def settings(**options: Any) -> OverlapSettings:
    return OverlapSettings(**{"layers": 3, "pages": (4,), "rounds": 2, "workers": 1, **options})


def run(asked: OverlapSettings) -> BenchReport:
    with OverlapBench(asked) as bench:
        bench.run()
        return bench.report


@pytest.mark.parametrize("work", ["sleep", "gemm"])
def test_rows(work: str) -> None:
    report = run(settings(work=work, ratios=(0.5, 20.0)))
    assert report.passed
    assert [case["id"] for case in report.cases] == [
        f"page_first/auto/run1/pages4/{work}/ratio{ratio}/h2d" for ratio in ("0.5", "20")
    ]
    for case in report.cases:
        assert case.keys() >= KEYS
        assert case["together_seconds"] == case["seconds_median"] > 0
        assert case["copy_seconds"] > 0 and case["compute_seconds"] > 0
        assert case["device_over"] is None
    assert all(report.peak.values())


def test_over_is_by_the_longer_and_a_layer_of_the_shorter() -> None:
    row = Times([2.0], [6.0], [6.2]).row("", layers=10)
    assert row["over"] == pytest.approx(6.2 / 6.2) and row["within_bound"] is True
    row = Times([6.0], [2.0], [6.6]).row("device_", layers=10)
    assert row["device_over"] == pytest.approx(6.6 / 6.2) and row["device_within_bound"] is False


def test_the_stream_waits_for_each_layer_before_it_computes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waited: list[int] = []
    wait_layer = hc.Ticket.wait_layer

    def noting(ticket: hc.Ticket, layer: int, stream: Any = None) -> None:
        wait_layer(ticket, layer, stream)
        assert ticket.layer_done(layer)
        waited.append(layer)

    monkeypatch.setattr(hc.Ticket, "wait_layer", noting)
    run(settings(ratios=(1.0,)))
    assert waited[:3] == [0, 1, 2] and set(waited) == {0, 1, 2}


def test_wrong_bytes_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    load = hc.TransferEngine.load

    def wrong(engine: hc.TransferEngine, host: Any, device: Any, **options: Any) -> hc.Ticket:
        return load(engine, host[::-1].copy(), device, **options)

    monkeypatch.setattr(hc.TransferEngine, "load", wrong)
    report = run(settings(ratios=(1.0,)))
    assert not report.passed and report.cases[0]["verified"] is False


def test_cases() -> None:
    cases = overlap_cases(settings(pattern="*/ratio0.*", host_runs=(1, 2)))
    assert len(cases) == 2 * 3
    with pytest.raises(ValueError, match="matches no case"):
        OverlapBench(settings(pattern="x"))
    with pytest.raises(ValueError, match="give --pool 8"):
        OverlapBench(settings(pool=3))
