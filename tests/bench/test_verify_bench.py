"""The bench of digests on the CPU backend, small: its cases, its rows, and that it can fail."""

from __future__ import annotations

from typing import Any

import pytest

import hicache_nsa as hc
from hicache_nsa import testing
from hicache_nsa.bench.report import BenchReport
from hicache_nsa.bench.settings import VerifySettings
from hicache_nsa.bench.verify import VerifyBench, verify_cases


def settings(**options: Any) -> VerifySettings:
    return VerifySettings(**{"layers": 2, "pages": (4,), "rounds": 2, "workers": 1, **options})


def run(asked: VerifySettings) -> BenchReport:
    with VerifyBench(asked) as bench:
        bench.run()
        return bench.report


def test_rows_say_what_was_compared() -> None:
    report = run(settings(layouts=("layer_first", "page_first")))
    assert report.passed
    assert len(report.cases) == 2 * 2 * 2
    for case in report.cases:
        assert case["bytes"] == 4 * hc.formats.dsa(2).page_bytes
        assert case["gbps"] == pytest.approx(case["bytes"] / case["seconds_median"] / 1e9)
        assert case["over_off"] > 0 and case["off_gbps"] > 0
        assert (case["landed_over_off"] is None) == (case["direction"] == "d2h")
        if case["direction"] == "d2h":
            assert case["verified_pages_a_copy"] == 0
        elif case["verify"] == "all":
            assert case["verified_pages_a_copy"] == 4
        else:
            assert case["verified_pages_a_copy"] < 4
    assert all(value is not None and value > 0 for value in report.peak.values())


def test_a_page_that_goes_wrong_ends_the_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    timed = VerifyBench._time

    def spoiled(self: VerifyBench, rig: Any, copy: Any, into: Any) -> None:
        testing.corrupt(rig.engine.host_pool, int(copy.host_pages[0]), 1, 3)
        timed(self, rig, copy, into)

    monkeypatch.setattr(VerifyBench, "_time", spoiled)
    with pytest.raises(hc.TransferError, match="layer 1"):
        run(settings(directions=("h2d",), verify=("all",)))


def test_cases_and_what_is_refused() -> None:
    ids = [case.id for case in verify_cases(settings(pattern="*/d2h/*"))]
    assert ids == ["page_first/auto/run1/pages4/d2h/sample", "page_first/auto/run1/pages4/d2h/all"]
    with pytest.raises(ValueError, match="matches no case"):
        verify_cases(settings(pattern="*/nothing"))
    with pytest.raises(ValueError, match="--pool 8"):
        VerifyBench(settings(pool=4))
