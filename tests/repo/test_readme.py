"""What the README says is true: its commands run, its links lead somewhere, its figures stand."""

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from click.testing import CliRunner
from layout import ROOT

from hicache_nsa.cli.app import hicache

README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMAND = ".venv/bin/hicache "
COMMANDS = [line.removeprefix(COMMAND) for line in README.splitlines() if line.startswith(COMMAND)]
SMALL = ["--questions", "2", "--layers", "1", "--max-new-tokens", "2"]


def test_it_shows_commands() -> None:
    assert any("--prompts examples/questions.jsonl" in command for command in COMMANDS)
    lines = README.splitlines()
    assert [line for line in lines if line.startswith("hicache ")] == []  # not on anybody's PATH


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_accepted_as_it_stands(
    command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    name, *options = shlex.split(command)
    if "--help" in options:
        assert CliRunner().invoke(hicache, [name, *options]).exit_code == 0
        return
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    with hicache.make_context("hicache", [name]) as parent:
        hicache.commands[name].make_context(name, options, parent=parent)


@pytest.mark.parametrize("command", [line for line in COMMANDS if "--help" not in line])
def test_a_command_runs_with_fewer_questions(command: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    run = subprocess.run(
        [sys.executable, "-m", "hicache_nsa.cli", *shlex.split(command), *SMALL],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "came back from host memory" in run.stdout


def test_the_question_file_has_enough_for_its_command() -> None:
    text = (ROOT / "examples" / "questions.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    assert all(set(row) == {"question", "answer"} for row in rows)
    assert len({row["question"] for row in rows}) == len(rows) >= 12
    command = next(shlex.split(line) for line in COMMANDS if "questions.jsonl" in line)
    wanted = [int(command[command.index(name) + 1]) for name in ("--shots", "--questions")]
    assert sum(wanted) <= len(rows)


def test_the_table_has_the_measured_medians() -> None:
    measured = json.loads((ROOT / "bench" / "results" / "demo_default.json").read_text())
    lines = README.splitlines()
    firsts = []
    for index, name in enumerate(("cold", "device", "after_flush")):
        runs = [report["runs"][index] for report in measured["reports"]]
        row = next(line for line in lines if line.startswith(f" {name} "))
        assert row.split() == [name, *_row(runs), *row.split()[-1:]]
        firsts.append(f"{name} {median(run['ttft_ms_first'] for run in runs):,.0f} ms")
    assert f"First question's time to first token: {', '.join(firsts)}." in lines


def _row(runs: list[dict[str, Any]]) -> list[str]:
    one = runs[0]
    prompt, device, host = (one[f"{x}_tokens"] for x in ("prompt", "device_hit", "host_hit"))
    done = prompt + one["generated_tokens"]
    return [
        *(f"{prompt:,}", f"{device:,}", f"{host:,}", f"{one['computed_tokens']:,}"),
        *(f"{device / prompt:.1%}", f"{host / prompt:.1%}"),
        f"{median(run['seconds'] for run in runs):.1f}",
        f"{median(done / run['seconds'] for run in runs):,.0f}",
        *(f"{median(run['ttft_ms_p50'] for run in runs):,.0f}", "ms"),
    ]


def test_it_shows_the_quickstart() -> None:
    code = (ROOT / "examples" / "quickstart.py").read_text(encoding="utf-8")
    body = code.partition('"""\n\n')[2]
    assert f"```python\n{body}```" in README


LINKED = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
LINKED += sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))


@pytest.mark.parametrize("name", LINKED)
def test_links_lead_to_files_that_exist(name: str) -> None:
    file = ROOT / name
    targets = [part.partition(")")[0] for part in file.read_text(encoding="utf-8").split("](")[1:]]
    local = [target for target in targets if "://" not in target]
    assert [target for target in local if not (file.parent / target).exists()] == []


def test_every_page_of_the_docs_is_linked() -> None:
    pages = [path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert len(pages) >= 10
    assert [page for page in sorted(pages) if f"]({page})" not in README] == []


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_the_make_targets_exist(name: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    targets = {line.split()[1] for line in lines if line.startswith("make ")}
    assert targets
    assert [target for target in targets if f"\n{target}:" not in makefile] == []
