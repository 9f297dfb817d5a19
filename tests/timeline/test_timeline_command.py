from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from trace_format import Slice, read_trace

from hicache_nsa.cli.app import hicache

DEMO = ["demo", "--questions", "2", "--shots", "3", "--tokenizer", "bytes", "--layers", "2"]
DEMO += ["--max-new-tokens", "2"]
ROOT = Path(__file__).parents[2]
LAYERS, PAGES = 3, 8
OVERLAP = ["bench", "overlap", "--layers", str(LAYERS), "--pages", str(PAGES), "--rounds", "1"]
DRAW = [sys.executable, str(ROOT / "bench" / "draw_timeline.py")]


def on(slices: list[Slice], row: str) -> list[str]:
    return [each.name for each in slices if each.row.split(",")[0] == row]


def test_the_demo_records_the_run_after_the_flush(tmp_path: Path) -> None:
    file = tmp_path / "demo.json"
    run = CliRunner().invoke(hicache, [*DEMO, "--timeline", str(file)])
    assert run.exit_code == 0, run.output
    slices = read_trace(file)
    assert on(slices, "compute") == ["prefill", "decode"] * 2
    calls = on(slices, "scheduler")
    assert calls[0] == "match_prefix"
    assert calls.count("match_prefix") == 2  # of that run alone
    assert "load_back" in calls
    assert on(slices, "H2D")[:3] == ["copy 1", "layer 0", "layer 1"]


def test_a_full_disk_takes_the_timeline_and_not_the_result(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    run = CliRunner().invoke(hicache, [*DEMO, "--timeline", "/dev/full", "--json", str(result)])
    assert run.exit_code == 1
    assert "as computed" in run.output and "No space left" in run.output
    assert json.loads(result.read_text())["outputs_identical"] is True


@pytest.fixture(scope="module")
def one_load(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("overlap") / "load.json"
    run = CliRunner().invoke(hicache, [*OVERLAP, "--ratios", "1", "--timeline", str(file)])
    assert run.exit_code == 0, run.output
    return file


def test_the_bench_records_one_load_beside_compute(one_load: Path) -> None:
    slices = read_trace(one_load)
    layers = [f"layer {layer}" for layer in range(LAYERS)]
    assert on(slices, "compute") == layers
    for row in ("H2D", "D2H"):
        (copy,) = (s for s in slices if s.row == row and s.name.startswith("copy"))
        assert copy.args["pages"] == (PAGES if row == "H2D" else PAGES // 4)
        assert [s.name for s in slices if s.row == row][1:] == layers
    load = {s.name: s for s in slices if s.row == "H2D"}
    for computed in (s for s in slices if s.row.startswith("compute")):
        assert computed.begin >= load[computed.name].end  # what it computes on has landed
    about = json.loads(one_load.read_text())["otherData"]
    assert about["device"] == "cpu" and about["layers"] == LAYERS
    subprocess.run(
        [sys.executable, "-m", "json.tool", str(one_load)], check=True, capture_output=True
    )


def test_one_load_is_drawn(one_load: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pictures = [tmp_path / "a.svg", tmp_path / "b.svg"]
    for picture in pictures:
        subprocess.run([*DRAW, str(one_load), str(picture)], check=True)
    drawn = pictures[0].read_text(encoding="utf-8")
    assert drawn == pictures[1].read_text(encoding="utf-8")
    assert f"{PAGES} pages" in drawn and f"{LAYERS} layers" in drawn
    assert "waits for" in drawn and "compute" in drawn


def test_a_file_without_a_load_is_not_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    file = tmp_path / "empty.json"
    file.write_text(json.dumps({"traceEvents": [], "otherData": {}}))
    run = subprocess.run(
        [*DRAW, str(file), str(tmp_path / "x.svg")], capture_output=True, text=True
    )
    assert run.returncode == 2
    assert "no load" in run.stderr
    assert not (tmp_path / "x.svg").exists()


def test_spans_of_any_name_are_drawn_but_a_load_has_to_have_ended(
    one_load: Path, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    document = json.loads(one_load.read_text())
    layer = next(e for e in document["traceEvents"] if e["name"] == "layer 0")
    document["traceEvents"] += [{**layer, "name": name} for name in ("layer", "layers", "", "a b")]
    file = tmp_path / "odd.json"
    file.write_text(json.dumps(document))
    subprocess.run([*DRAW, str(file), str(tmp_path / "odd.svg")], check=True)
    unended = [e for e in document["traceEvents"] if not e["name"].startswith("copy ")]
    file.write_text(json.dumps({**document, "traceEvents": unended}))
    run = subprocess.run(
        [*DRAW, str(file), str(tmp_path / "x.svg")], capture_output=True, text=True
    )
    assert run.returncode == 2
    assert "no load" in run.stderr and "Traceback" not in run.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a file that is always full")
def test_a_full_disk_does_not_cost_the_result() -> None:
    run = CliRunner().invoke(hicache, [*DEMO, "--timeline", "/dev/full"])
    assert run.exit_code == 1
    assert "are as computed" in run.output
    assert "/dev/full" in run.output.splitlines()[-1]


@pytest.mark.parametrize("command", [DEMO, [*OVERLAP, "--ratios", "1"]], ids=["demo", "overlap"])
@pytest.mark.parametrize("target", ["nowhere/out.json", ".", "-"])
def test_a_file_that_cannot_be_written_is_refused_before_the_run(
    command: list[str], target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke(hicache, [*command, "--timeline", target])
    assert run.exit_code == 2
    assert "--timeline" in run.output
    assert ("stdout" if target == "-" else target) in run.output
    assert "cold" not in run.output and "page_first" not in run.output


def test_a_timeline_of_several_loads_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    run = CliRunner().invoke(hicache, [*OVERLAP, "--ratios", "1,2", "--timeline", str(file)])
    assert run.exit_code == 2
    assert "2 cases" in run.output and "--ratios" in run.output
    assert not file.exists()
