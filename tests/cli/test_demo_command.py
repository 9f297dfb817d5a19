from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hicache_nsa.cli import progress
from hicache_nsa.cli.app import hicache

SMALL = ["demo", "--questions", "2", "--shots", "3", "--tokenizer", "bytes"]
SMALL += ["--layers", "1", "--max-new-tokens", "2"]
COMMAND = [sys.executable, "-m", "hicache_nsa.cli"]


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(hicache, list(arguments), prog_name="hicache")


def test_version_and_help() -> None:
    assert invoke("--version").output.startswith("hicache, version ")
    help_text = invoke("--help")
    assert help_text.exit_code == 0
    assert "demo" in help_text.output
    assert "--own-shots" in invoke("demo", "-h").output


def test_table_and_json_file(tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    run = subprocess.run([*COMMAND, *SMALL, "--json", str(file)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    for word in ("cold", "device", "after_flush", "TTFT", "Pages of 64 tokens"):
        assert word in run.stdout
    assert "\x1b" not in run.stdout
    written = json.loads(file.read_text(encoding="utf-8"))
    assert [run["name"] for run in written["runs"]] == ["cold", "device", "after_flush"]
    keys = {
        *("name", "prompt_tokens", "device_hit_tokens", "host_hit_tokens", "computed_tokens"),
        *("seconds", "ttft_ms_p50", "output_sha256"),
    }
    assert all(keys <= set(run) for run in written["runs"])
    assert written["outputs_identical"] is True
    assert written["bytes_identical"] is True
    assert {"version", "command", "environment", "settings"} <= set(written)
    assert written["settings"]["tokenizer"] == "bytes"
    assert written["command"][-1] == str(file)


def test_json_on_stdout_is_all_of_it() -> None:
    run = subprocess.run([*COMMAND, *SMALL, "--json", "-"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["interrupted"] is False


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--questions", "0"], "--questions"),
        (["--shots", "-1"], "--shots"),
        (["--device", "tpu"], "--device"),
        (["--kv-dtype", "int4"], "--kv-dtype"),
        (["--tokenizer", "no-such-file.json"], "no such file; use bytes, deepseek"),
        (["--prompts", "no-such-file.jsonl"], "no-such-file.jsonl"),
        (["--host-size", "many"], "is not a size"),
        (["--host-size", "10"], "one page"),
        (["--json", "no-such-folder/out.json"], "cannot be written"),
        (["surplus"], "surplus"),
        (["--no-such-option"], "--no-such-option"),
    ],
)
def test_bad_usage(arguments: list[str], message: str) -> None:
    outcome = invoke(*SMALL, *arguments)
    assert outcome.exit_code == 2
    assert message in outcome.output


def test_unknown_command() -> None:
    assert invoke("no-such-command").exit_code == 2


def test_broken_prompts_file(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"question": "q", "answer": "a"}\n{"question": \n')
    outcome = invoke("demo", "--prompts", str(file))
    assert outcome.exit_code == 2
    assert f"{file}:2: not a line of JSON" in outcome.output


def test_cuda_is_refused_with_the_next_step() -> None:
    outcome = invoke(*SMALL, "--device", "cuda")
    assert outcome.exit_code == 1
    assert "run with --device cpu" in outcome.output


def test_too_few_device_pages_fail_with_the_numbers() -> None:
    outcome = invoke(*SMALL, "--device-pages", "3")
    assert outcome.exit_code == 1
    assert outcome.output.startswith("Error: ")
    assert "3" in outcome.output


@pytest.mark.parametrize("module", ["torch", "rich", "tokenizers"])
def test_missing_extra_names_the_pip_command(module: str) -> None:
    block = f"import sys; sys.modules[{module!r}] = None; sys.argv[0] = 'hicache'\n"
    code = block + "from hicache_nsa.cli import main; main()"
    options = ["demo", "--questions", "1", "--shots", "1", "--tokenizer", "deepseek"]
    run = subprocess.run([sys.executable, "-c", code, *options], capture_output=True, text=True)
    assert run.returncode in {1, 2}
    assert "pip install 'hicache-nsa[demo]'" in run.stderr
    assert "Traceback" not in run.stderr


def test_interrupt_prints_what_is_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    @contextmanager
    def interrupting(total: int) -> Iterator[progress.Step]:
        left = 3

        def step(label: str) -> None:
            nonlocal left
            left -= 1
            if not left:
                raise KeyboardInterrupt

        yield step

    monkeypatch.setattr(progress, "progress_bar", interrupting)
    file = tmp_path / "out.json"
    outcome = invoke(*SMALL, "--json", str(file))
    assert outcome.exit_code == 1
    assert "Interrupted" in outcome.output
    assert "cold" in outcome.output
    written = json.loads(file.read_text(encoding="utf-8"))
    assert written["interrupted"] is True
    assert [run["questions"] for run in written["runs"]] == [2, 1]
