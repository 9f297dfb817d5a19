"""The benches on a GPU, small: both clocks, the joint measurement, every byte."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_pools import LAYOUTS, WAYS, torch

from hicache_nsa.bench import cuda_gemm
from hicache_nsa.bench.overlap import OverlapBench
from hicache_nsa.bench.report import BenchReport
from hicache_nsa.bench.settings import OverlapSettings, TransferSettings
from hicache_nsa.bench.transfer import TransferBench

SMALL: dict[str, Any] = {"device": "cuda", "layers": 3, "pages": (8,), "rounds": 2}


def transfer(**options: Any) -> BenchReport:
    with TransferBench(TransferSettings(**{**SMALL, **options})) as bench:
        bench.run()
        return bench.report


@pytest.mark.parametrize("packed", [False, True])
def test_every_layout_and_direction(packed: bool) -> None:
    asked = ("auto", *WAYS)
    report = transfer(
        layouts=LAYOUTS, io_backends=asked, host_runs=(1, 4), packed=packed, both=True
    )
    assert report.passed
    for case in report.cases:
        assert case["way"] and case["device_way"]
        if case["io_backend"] != "auto" and case["layout"] != "page_first_direct":
            assert case["way"] == case["device_way"] == [case["io_backend"]]
        assert case["device_seconds_median"] > 0 and case["device_submit_hidden"] in (True, False)
    assert report.machine["gpu"] == torch.cuda.get_device_name()


def test_the_joint_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_gemm, "WARM_UP_SECONDS", 0.01)
    monkeypatch.setattr(cuda_gemm, "FEWEST", 48)
    report = transfer(gemm=True, both=True, pages=(64,))
    assert report.passed
    for case in report.cases:
        assert case["gemm_gbps"] > 0 and case["gemm_submit_us"] > 0 and case["gemm_way"]
        assert case["gemm_slowdown"] > -1 and case["gemm_alone_ms"] > 0
        assert case["gemm_products"] >= cuda_gemm.FEWEST and case["gemm_copies"][0] > 0


@pytest.mark.parametrize("work", ["sleep", "gemm"])
def test_overlap(work: str) -> None:
    settings = OverlapSettings(**SMALL, ratios=(0.5, 2.0), work=work)
    with OverlapBench(settings) as bench:
        bench.run()
        assert bench.report.passed
    for case in bench.report.cases:
        assert case["device_together_seconds"] > 0 and case["device_compute_seconds"] > 0
        assert case["way"] and case["over"] > 0 and case["device_over"] > 0
