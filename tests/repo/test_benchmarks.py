"""The commands that docs/benchmarks.md gives for figures are accepted as they stand."""

import re
import shlex
from pathlib import Path

import pytest
from layout import ROOT

from hicache_nsa.cli.app import hicache

TEXT = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
IN_TABLE = re.findall(r"`((?:transfer|overlap|link)\b[^`]*)`", TEXT)
WHOLE = [" ".join(found.split()) for found in re.findall(r"`hicache bench ([^`]*)`", TEXT)]
COMMANDS = [command for command in [*IN_TABLE, *WHOLE] if "..." not in command]


def test_they_are_found() -> None:
    options = ("--gemm", "--replay", "--packed", "--both", "--work gemm", "--device cuda")
    for option in (*options, "link --again", "tree --trace", "--peer sglang"):
        assert any(option in command for command in COMMANDS), option


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_accepted(
    command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("TRACE.jsonl", "gsm8k_test.jsonl"):
        (tmp_path / name).touch()
    name, *options = shlex.split(command)
    group = hicache.commands["bench"]
    with hicache.make_context("hicache", ["bench"]) as parent:
        group.commands[name].make_context(name, options, parent=parent)  # type: ignore[attr-defined]
