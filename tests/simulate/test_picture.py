"""The picture: its lines are the report's, the file is made."""

from __future__ import annotations

from pathlib import Path

import pytest
from conversation import prompts, write_lines

from hicache_nsa import formats
from hicache_nsa.simulate.case import cases_of
from hicache_nsa.simulate.report import SimulationReport
from hicache_nsa.simulate.simulation import Simulation
from hicache_nsa.traces import TraceOptions, read_trace

picture = pytest.importorskip("hicache_nsa.simulate.picture", exc_type=ImportError)
FORMAT = formats.mha(1, 1, 4, dtype="fp8", page_size=4)


def report_of(tmp_path: Path, policies: list[str], writes: list[str]) -> SimulationReport:
    file = write_lines(tmp_path / "t.jsonl", [{"tokens": one} for one in prompts(1, 40, 4)])
    size = FORMAT.page_bytes
    cases = cases_of(policies, writes, [9 * size], [20 * size, 0, 10 * size])
    simulation = Simulation(read_trace(file, TraceOptions(page_size=4)), FORMAT, cases)
    simulation.run()
    return simulation.report


def test_its_lines(tmp_path: Path) -> None:
    report = report_of(tmp_path, ["lru", "mru"], ["write_through", "write_back"])
    lines = picture._lines(report.results)
    assert list(lines) == [
        f"{policy}, {write}, device 288 B"
        for policy in ("lru", "mru")
        for write in ("write_through", "write_back")
    ]
    first = report.results[0]
    assert lines["lru, write_through, device 288 B"][0] == (
        640 / 2**30,
        100 * first.hit_tokens / first.prompt_tokens,
    )
    (bound,) = picture._bounds(report.results).values()
    assert len(bound) == 3


@pytest.mark.parametrize("ending", ["png", "svg", "PNG", "pdf"])
def test_the_file(ending: str, tmp_path: Path) -> None:
    report = report_of(tmp_path, ["lru"], ["write_through"])
    file = tmp_path / f"out.{ending}"
    picture.draw(report, file)
    assert file.stat().st_size > 1000
    if ending == "svg":
        text = file.read_text(encoding="utf-8")
        assert "host tier, GiB" in text and "no policy exceeds" in text
    report.results.clear()
    picture.draw(report, file)  # interrupted before the first case was over


def test_known_endings() -> None:
    assert {"png", "svg", "pdf"} <= set(picture.picture_formats())
