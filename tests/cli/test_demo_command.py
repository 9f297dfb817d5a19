from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hicache_nsa import _core
from hicache_nsa.cli import main, progress
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
    assert written["command"][:2] == ["hicache", "demo"] and "--json" not in written["command"]


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
        (["--host-size", "10"], "--host-size must be at least 50432 bytes (49.25 KiB), one page"),
        (["--host-size", "0"], "--host-size must be at least 50432 bytes (49.25 KiB), one page"),
        (["--device-pages", "3"], "--device-pages must be at least 16, the pages of the largest"),
        (["--json", "no-such-folder/out.json"], "cannot be written"),
        (["surplus"], "surplus"),
        (["--no-such-option"], "--no-such-option"),
    ],
)
def test_bad_usage(arguments: list[str], message: str) -> None:
    outcome = invoke(*SMALL, *arguments)
    assert outcome.exit_code == 2
    assert message in outcome.output
    assert "host_pages" not in outcome.output


def test_unknown_command() -> None:
    assert invoke("no-such-command").exit_code == 2


def test_broken_prompts_file(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"question": "q", "answer": "a"}\n{"question": \n')
    outcome = invoke("demo", "--prompts", str(file))
    assert outcome.exit_code == 2
    assert f"{file}:2: not a line of JSON" in outcome.output


def test_cuda_is_refused_with_the_next_step(no_gpu: str) -> None:
    outcome = invoke(*SMALL, "--device", "cuda")
    assert outcome.exit_code == 1
    assert "device='cuda'" in outcome.output and no_gpu in " ".join(outcome.output.split())
    assert "Without a GPU: --device cpu." in outcome.output


def test_a_torch_without_gpu_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(_core, "cuda_device_index", lambda name: 0)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    outcome = invoke(*SMALL, "--device", "cuda")
    assert outcome.exit_code == 1
    assert f"torch {torch.__version__} sees no GPU; install a torch with CUDA" in outcome.output
    assert "Without a GPU: --device cpu." in outcome.output


def test_prompts_without_one_whole_page(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"question": "2 + 2?"}\n')
    outcome = invoke(*SMALL, "--prompts", str(file), "--shots", "0", "--questions", "1")
    assert outcome.exit_code == 2
    assert "prompts too short for a page: the longest has 24 tokens" in outcome.output


def test_what_is_shown_is_said_before_the_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def stop(total: int) -> Iterator[progress.Step]:
        raise SystemExit(3)
        yield

    monkeypatch.setattr(progress, "progress_bar", stop)
    outcome = invoke(*SMALL)
    assert outcome.exit_code == 3
    what, look_for, sizing = outcome.output.splitlines()
    assert "model of 1 layer " in what
    assert "2 questions behind 3 common shots" in what
    assert "cold, on the warm device, and after a flush that keeps host memory" in what
    assert look_for.startswith("Look for: after_flush")
    assert sizing.startswith("Pages of 64 tokens")


@pytest.mark.parametrize(("module", "code"), [("torch", 1), ("rich", 1), ("tokenizers", 2)])
def test_missing_extra_names_the_pip_command(module: str, code: int) -> None:
    block = f"import sys; sys.modules[{module!r}] = None; sys.argv[0] = 'hicache'\n"
    script = block + "from hicache_nsa.cli import main; main()"
    options = ["demo", "--questions", "1", "--shots", "1", "--tokenizer", "deepseek"]
    run = subprocess.run([sys.executable, "-c", script, *options], capture_output=True, text=True)
    assert run.returncode == code
    assert f"needs {module}: run pip install 'hicache-nsa[demo]'" in run.stderr
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


def test_interrupt_while_the_commands_are_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    class Importing:
        def __getattr__(self, name: str) -> object:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "hicache_nsa.cli.app", Importing())
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 1
