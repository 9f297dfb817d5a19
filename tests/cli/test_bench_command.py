from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import hicache_nsa as hc
from hicache_nsa import _core
from hicache_nsa.cli import progress
from hicache_nsa.cli.app import hicache

TRANSFER = ["bench", "transfer", "--layers", "2", "--pages", "4", "--rounds", "1"]
OVERLAP = ["bench", "overlap", "--layers", "2", "--pages", "4", "--rounds", "1"]
COMMAND = [sys.executable, "-m", "hicache_nsa.cli"]
CONTRACT = {"id", "direction", "bytes", "seconds_median", "gbps", "share_of_peak", "verified"}


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(hicache, list(arguments), prog_name="hicache")


@pytest.mark.parametrize("command", [TRANSFER, OVERLAP])
def test_table_and_json_file(tmp_path: Path, command: list[str]) -> None:
    file = tmp_path / "out.json"
    run = subprocess.run([*COMMAND, *command, "--json", str(file)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    assert "\x1b" not in run.stdout
    written = json.loads(file.read_text(encoding="utf-8"))
    assert {"version", "command", "environment", "settings", "peak", "cases"} <= set(written)
    assert written["peak"].keys() == {"h2d_gbps", "d2h_gbps"}
    assert written["environment"]["device"] == "cpu"
    assert written["environment"]["build"]["cuda"] == _core.build_info()["cuda"]
    for case in written["cases"]:
        assert case.keys() >= CONTRACT
        assert case["verified"] is True
        assert case["id"] in run.stdout
    assert "One contiguous copy: h2d" in run.stdout


def test_json_on_stdout_is_all_of_it() -> None:
    run = subprocess.run([*COMMAND, *TRANSFER, "--json", "-"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert len(json.loads(run.stdout)["cases"]) == 3


def test_lists_and_a_filter(tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    options = ["--pages", "2,4", "--runs", "1,2", "--layout", "layer_first,page_first", "--both"]
    options += ["--filter", "*/pages4/both", "--mode", "whole", "--json", str(file)]
    assert invoke(*TRANSFER, *options).exit_code == 0
    ids = [case["id"] for case in json.loads(file.read_text())["cases"]]
    assert ids == [
        f"{layout}/auto/whole/run{run}/pages4/both"
        for layout in ("layer_first", "page_first")
        for run in (1, 2)
    ]


@pytest.mark.parametrize(
    ("command", "arguments", "message"),
    [
        (TRANSFER, ["--pages", "0"], "'0' must be a whole number of 1 or more"),
        (TRANSFER, ["--runs", "1,x"], "'x' must be a whole number"),
        (TRANSFER, ["--layout", "sideways"], "'sideways' is unknown; known: layer_first"),
        (TRANSFER, ["--io-backend", "auto,magic"], "'magic' is unknown; known: auto, kernel"),
        (TRANSFER, ["--direction", "up"], "'up' is unknown; known: h2d, d2h"),
        (TRANSFER, ["--device", "tpu"], "'tpu' is unknown; known: cpu, cuda, cuda:N"),
        (TRANSFER, ["--pool", "4"], "give --pool 8"),
        (TRANSFER, ["--filter", "x"], "matches no case; there is, for example, 'page_first/"),
        (TRANSFER, ["--gemm"], "give --device cuda"),
        (TRANSFER, ["--rounds", "0"], "--rounds"),
        (TRANSFER, ["--replay", "no-such-file"], "no-such-file"),
        (TRANSFER, ["--json", "no-such-folder/out.json"], "cannot be written"),
        (OVERLAP, ["--ratios", "1,0"], "'0' must be a number above 0"),
        (TRANSFER, ["--pages", "10000001"], "'10000001' must be at most 10000000"),
        (TRANSFER, ["--blocks", "1000001"], "--blocks"),
        (TRANSFER, ["--replay-limit", "3"], "give --replay TRACE.jsonl"),
        (OVERLAP, ["--ratios", "1e6"], "above 0 and below 1,000,000"),
        (OVERLAP, ["--ratios", "nan"], "'nan' must be a number above 0"),
        (OVERLAP, ["--work", "play"], "--work"),
        (OVERLAP, ["--both"], "--both"),
        (["bench", "nothing"], [], "nothing"),
    ],
)
def test_bad_usage(command: list[str], arguments: list[str], message: str) -> None:
    outcome = invoke(*command, *arguments)
    assert outcome.exit_code == 2
    assert message in " ".join(outcome.output.split())


@pytest.mark.parametrize("command", [TRANSFER, OVERLAP])
def test_a_device_that_is_not_there(command: list[str], no_gpu: str) -> None:
    outcome = invoke(*command, "--device", "cuda")
    assert outcome.exit_code == 1
    assert no_gpu in " ".join(outcome.output.split())


def test_wrong_bytes_are_exit_code_1(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    save = hc.TransferEngine.save

    def wrong(engine: hc.TransferEngine, device: Any, host: Any, **options: Any) -> hc.Ticket:
        return save(engine, device[::-1].copy(), host, **options)

    monkeypatch.setattr(hc.TransferEngine, "save", wrong)
    file = tmp_path / "out.json"
    outcome = invoke(*TRANSFER, "--json", str(file))
    assert outcome.exit_code == 1
    assert "BYTES DIFFER in 1 of 3 cases: page_first/auto/whole/run1/pages4/d2h" in outcome.output
    verdicts = [case["verified"] for case in json.loads(file.read_text())["cases"]]
    assert sorted(verdicts) == [False, True, True]


def test_a_failed_copy_shows_what_was_done(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    save = hc.TransferEngine.save

    def failing(engine: hc.TransferEngine, *pages: Any, **options: Any) -> hc.Ticket:
        engine.fail_next("d2h")
        return save(engine, *pages, **options)

    monkeypatch.setattr(hc.TransferEngine, "save", failing)
    file = tmp_path / "out.json"
    outcome = invoke(*TRANSFER, "--json", str(file))
    assert outcome.exit_code == 1
    assert "FAILED, the figures cover what was done until then: " in outcome.output
    written = json.loads(file.read_text())
    assert "injected failure" in written["error"]
    assert [case["direction"] for case in written["cases"]] == ["h2d"]


@pytest.mark.parametrize("command", [TRANSFER, OVERLAP])
def test_interrupt_prints_what_is_there(
    command: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    @contextmanager
    def interrupting(total: int) -> Iterator[progress.Step]:
        def step(label: str) -> None:
            raise KeyboardInterrupt

        yield step

    monkeypatch.setattr(progress, "progress_bar", interrupting)
    file = tmp_path / "out.json"
    outcome = invoke(*command, "--json", str(file))
    assert outcome.exit_code == 1
    assert "Interrupted" in outcome.output
    written = json.loads(file.read_text(encoding="utf-8"))
    assert written["interrupted"] is True
    assert len(written["cases"]) == 1
    assert written["cases"][0]["id"] in outcome.output


def test_missing_rich_names_the_pip_command() -> None:
    script = "import sys; sys.modules['rich'] = None; sys.argv[0] = 'hicache'\n"
    script += "from hicache_nsa.cli import main; main()"
    run = subprocess.run([sys.executable, "-c", script, *TRANSFER], capture_output=True, text=True)
    assert run.returncode == 1
    assert "the bench needs rich: run pip install 'hicache-nsa[demo]'" in run.stderr
    assert "Traceback" not in run.stderr


def test_the_cpu_bench_needs_no_torch() -> None:
    script = "import sys; sys.modules['torch'] = None; sys.argv[0] = 'hicache'\n"
    script += "from hicache_nsa.cli import main; main()"
    run = subprocess.run([sys.executable, "-c", script, *TRANSFER], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
