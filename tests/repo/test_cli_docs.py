"""docs/cli.md names every command, its shown commands are accepted, and it knows every line."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from layout import ROOT

from hicache_nsa.cli.app import hicache
from hicache_nsa.doctor import CHECKS

TEXT = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
SECTIONS = dict(
    re.findall(r"^## (hicache [a-z ]+)\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
)
SHOWN = re.findall(r"^hicache (.+)$", TEXT, re.MULTILINE)


def leaves(command: click.Command, name: str) -> dict[str, click.Command]:
    if not isinstance(command, click.Group):
        return {name: command}
    found: dict[str, click.Command] = {}
    for each, below in command.commands.items():
        found |= leaves(below, f"{name} {each}")
    return found


COMMANDS = leaves(hicache, "hicache")


def test_every_command_has_a_section_that_shows_it() -> None:
    assert set(SECTIONS) == set(COMMANDS)
    for name, section in SECTIONS.items():
        assert f"\n{name}" in section, name


@pytest.mark.parametrize("name", ["hicache size", "hicache doctor"])
def test_every_option_is_named(name: str) -> None:
    options = [option for each in COMMANDS[name].params for option in each.opts]
    assert len(options) >= 2
    assert [option for option in options if f"`{option}" not in SECTIONS[name]] == []


def table_below(heading: str) -> dict[str, str]:
    """Option to default, of the table below a heading."""
    text = TEXT.partition(f"\n### {heading}\n")[2]
    assert text, heading
    lines = [line for line in re.split(r"^#", text, flags=re.MULTILINE)[0].splitlines() if line]
    cells = [[cell.strip() for cell in line[1:-1].split("|")] for line in lines[2:]]
    assert {len(row) for row in cells} == {4}
    return {row[0].strip("`"): row[2] for row in cells}


def default_of(option: click.Option, command: click.Command) -> str:
    """As --help shows it."""
    shown = re.search(r"\[default: (.+?)[;\]]", " ".join((option.help or "").split()))
    if shown:
        return shown[1]
    if isinstance(option.show_default, str):
        return option.show_default
    value = option.get_default(click.Context(command))
    return str(value) if isinstance(value, (str, int)) and not option.is_flag else ""


SHARED = "hicache bench transfer, overlap, verify: options of all three"


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - {"hicache size", "hicache doctor"}))
def test_every_option_has_its_row_and_default(name: str) -> None:
    said = table_below(f"{name}: options")
    if name.rpartition(" ")[2] in ("transfer", "overlap", "verify"):
        said |= table_below(SHARED)
    options = [each for each in COMMANDS[name].params if isinstance(each, click.Option)]
    wanted = {
        each.opts[0]: default_of(each, COMMANDS[name])
        for each in options
        if each.opts[0] not in ("--json", "--help", "-h")
    }
    assert said == wanted


def test_every_line_of_the_doctor_is_in_the_table() -> None:
    rows = re.findall(r"^\| (`.+?`) \|", SECTIONS["hicache doctor"], re.MULTILINE)
    assert re.findall(r"`(.+?)`", " ".join(rows)) == list(CHECKS)


@pytest.mark.parametrize("shown", SHOWN)
def test_a_shown_command_is_accepted(
    shown: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").touch()
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "questions.jsonl").touch()
    words = shlex.split(shown)
    length = 2 if words[0] == "bench" else 1
    command = COMMANDS[f"hicache {' '.join(words[:length])}"]
    # click keeps the names of --help that it sees first
    command.make_context(words[length - 1], words[length:], **hicache.context_settings)


def test_the_shown_size_is_what_it_prints() -> None:
    options = "size --model deepseek-v3.2 --host-size 50GiB --bandwidth 54.4 --prefill-rate 20000"
    printed = CliRunner().invoke(hicache, options.split()).output.strip()
    assert printed in TEXT
