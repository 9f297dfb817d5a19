"""docs/simulate.md: its commands are accepted, its tables are the measured ones."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from layout import ROOT

from hicache_nsa.cli.app import hicache
from hicache_nsa.sizes import format_size
from hicache_nsa.traces import KINDS

TEXT = (ROOT / "docs" / "simulate.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^hicache simulate (.*)$", TEXT, re.MULTILINE)
INLINE = re.findall(r"`hicache simulate ([^`]*)`", TEXT)
COMMANDS += [found for found in (" ".join(one.split()) for one in INLINE) if found != "TRACE"]
RESULTS = {
    path.stem: json.loads(path.read_text(encoding="utf-8"))
    for path in (ROOT / "bench" / "results").glob("simulate_*.json")
}


def size(nbytes: int) -> str:
    return format_size(nbytes).replace(".00", "") if nbytes else "none"


def percent(tokens: int, row: dict[str, Any]) -> str:
    return f"{tokens / row['prompt_tokens']:.1%}".replace("%", " %")


def table_rows(rows: list[dict[str, Any]]) -> list[str]:
    """Policy (where write policies are compared, that), host, hits by tier, both, bound, TTFT."""
    key = "policy" if len({row["write_policy"] for row in rows}) == 1 else "write_policy"
    return [table_row(row, key) for row in rows]


def table_row(row: dict[str, Any], key: str) -> str:
    device, host = row["device_hit_tokens"], row["host_hit_tokens"]
    cells = [
        row[key],
        size(row["host_bytes"]),
        *(percent(tokens, row) for tokens in (device, host, device + host)),
        percent(row["bound_hit_tokens"], row),
    ]
    if row["ttft_ms_estimate"] is not None:
        cells.append(f"{row['ttft_ms_estimate']['mean']:,.1f} ms")
    return f"| {' | '.join(cells)} |"


def test_there_are_commands_and_results() -> None:
    assert len(COMMANDS) >= 10 and len(RESULTS) >= 4


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_accepted(
    command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    for name in ("TRACE.jsonl", "BLOCKS.jsonl", "gsm8k_test.jsonl"):
        (tmp_path / name).touch()
    with hicache.make_context("hicache", ["simulate"]) as parent:
        hicache.commands["simulate"].make_context("simulate", shlex.split(command), parent=parent)


@pytest.mark.parametrize("name", RESULTS)
def test_its_tables_are_the_results(name: str) -> None:
    rows = RESULTS[name]["results"]
    assert RESULTS[name]["interrupted"] is False
    assert [row for row in table_rows(rows) if row not in TEXT.splitlines()] == []
    assert name in TEXT or name == "simulate_conversation"


def test_every_format_of_traces_is_described() -> None:
    assert re.findall(r"^\| `(\w+)` \|", TEXT, re.MULTILINE) == list(KINDS)
