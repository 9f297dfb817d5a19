"""``hicache bench link`` over a link curve of a GPU that is not there."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hicache_nsa import _core, link_curve
from hicache_nsa.bench.link import link_report
from hicache_nsa.cli.app import hicache
from hicache_nsa.errors import HiCacheError

POINTS = _core.LinkCurve.typical().points()


class Gpu:
    """As much of a GPU as ``link_curve`` looks at."""

    def __init__(self) -> None:
        self.measured: list[str] = []
        self.broken = False

    def measure(self, device: str) -> _core.LinkCurve:
        if self.broken:
            raise RuntimeError("no memory for 64 MiB")
        self.measured.append(device)
        return _core.LinkCurve(POINTS)

    def identity(self, device: str) -> str:
        if device != "cuda":
            raise RuntimeError(f"There is no device '{device}': 1 GPUs are here.")
        return "GPU 1"


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Gpu:
    here = Gpu()

    class LinkCurve:
        measure = staticmethod(here.measure)

        def __new__(cls, points: Any) -> Any:
            return _core.LinkCurve(points)

    fake = SimpleNamespace(
        LinkCurve=LinkCurve,
        build_info=_core.build_info,
        cuda_device_identity=here.identity,
    )
    monkeypatch.setattr(link_curve, "_core", fake)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return here


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(hicache, ["bench", "link", *arguments], prog_name="hicache")


def test_it_is_measured_once_and_anew_when_asked(gpu: Gpu) -> None:
    first = link_report("cuda")
    assert first.measured_now and first.file.is_file() and first.age_seconds is not None
    os.utime(first.file, (0, 0))
    second = link_report("cuda")
    assert not second.measured_now and gpu.measured == ["cuda"]
    assert second.age_seconds is not None and second.age_seconds > 1e9
    third = link_report("cuda", again=True)
    assert third.measured_now and gpu.measured == ["cuda", "cuda"]
    assert third.age_seconds is not None and third.age_seconds < 1e6
    assert first.cases == second.cases == third.cases


def test_every_point_is_a_case(gpu: Gpu) -> None:
    cases = {case["id"]: case for case in link_report("cuda").cases}
    assert len(cases) == sum(len(pairs) for each in POINTS.values() for pairs in each.values())
    for direction, operations in POINTS.items():
        for operation, pairs in operations.items():
            for size, seconds in pairs:
                case = cases[f"link/{direction}/{operation}/{size}"]
                assert (case["direction"], case["operation"]) == (direction, operation)
                assert (case["bytes"], case["seconds_median"]) == (size, seconds)
                assert case["gbps"] == pytest.approx(size / seconds / 1e9)


def test_table_and_json(gpu: Gpu, tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    outcome = invoke("--json", str(file))
    assert outcome.exit_code == 0, outcome.output
    written = json.loads(file.read_text())
    assert {"version", "command", "environment", "curve", "cases"} <= written.keys()
    assert written["environment"]["device"] == "cuda"
    assert written["environment"]["gpu"].startswith("GPU 1, hicache-nsa")
    assert written["curve"]["measured_now"] is True and written["curve"]["age_seconds"] >= 0
    kept = link_curve.curve_file("cuda")
    assert kept.is_file() and kept.name == written["curve"]["file"]
    assert f"Measured now, kept in {kept}" in outcome.output
    size, seconds = POINTS["d2h"]["piece"][-1]
    assert f"{size:,}" in outcome.output and f"{1e6 * seconds:.2f}" in outcome.output
    os.utime(kept, (0, 0))
    assert "days ago, kept in" in invoke().output
    assert "Measured now" in invoke("--again").output
    assert json.loads(invoke("--json", "-").output)["curve"]["measured_now"] is False
    assert len(gpu.measured) == 2


def test_a_folder_that_cannot_be_written_is_said(gpu: Gpu, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    report = link_report("cuda")
    assert report.age_seconds is None and "XDG_CACHE_HOME" in report.warnings[0]
    outcome = invoke()
    assert outcome.exit_code == 0
    assert "Measured now, not kept." in outcome.output and "Warning: the meas" in outcome.output


def test_what_cannot_be_shown_is_exit_code_1(gpu: Gpu) -> None:
    gpu.broken = True
    with pytest.raises(HiCacheError, match="no link to show: no memory for 64 MiB"):
        link_report("cuda")
    outcome = invoke()
    assert outcome.exit_code == 1 and "no memory for 64 MiB" in outcome.output
    outcome = invoke("--device", "cuda:7")
    assert outcome.exit_code == 1 and "There is no device 'cuda:7'" in outcome.output


def test_without_a_gpu(no_gpu: str) -> None:
    outcome = invoke()
    assert outcome.exit_code == 1
    told = " ".join(outcome.output.split())
    assert "no link to show: Device 'cuda'" in told and no_gpu in told


@pytest.mark.parametrize("device", ["cpu", "tpu", "cuda:x"])
def test_bad_usage(device: str) -> None:
    outcome = invoke("--device", device)
    assert outcome.exit_code == 2 and "known: " in outcome.output


def test_ages_are_in_a_unit_of_which_there_are_two() -> None:
    found = [link_curve.ago(seconds) for seconds in (0.4, 119, 120, 7_100, 7_200, 200_000)]
    assert found == ["0 seconds", "119 seconds", "2 minutes", "118 minutes", "2 hours", "2 days"]
