"""docs/troubleshooting.md: its messages, statistics, metrics, lines and commands are real."""

from __future__ import annotations

import ast
import re
import shlex
from dataclasses import fields
from pathlib import Path

import click
import pytest
from layout import PACKAGE, ROOT

import hicache_nsa as hc
from hicache_nsa.cli.app import hicache
from hicache_nsa.doctor import CHECKS
from hicache_nsa.metrics.table import METRICS

TEXT = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
ENTRIES = dict(re.findall(r"^### (.+?)\n(.*?)(?=^##|\Z)", TEXT, re.MULTILINE | re.DOTALL))
MESSAGES = re.findall(r"^- \*\*Message:\*\* `(.+?)`(?=$|[ :])", TEXT, re.MULTILINE)
INLINE = re.sub(r"^```.*?^```", "", TEXT, flags=re.MULTILINE | re.DOTALL)
QUOTED = [" ".join(each.split()) for each in re.findall(r"`([^`]+)`", INLINE)]
EXPORTED = {"counter": ("_total",), "histogram": ("", "_sum", "_count", "_bucket")}
SHORTEST = 4  # characters of a message that say something


def texts_of_python(path: Path) -> list[str]:
    """Every text of a module but docstrings; what is formatted into one is a line break."""
    found = []
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if id(node) in docstrings:
            continue
        if isinstance(node, ast.JoinedStr):
            parts = [each.value if isinstance(each, ast.Constant) else "\n" for each in node.values]
            found.append("".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
    return found


def texts_of_cpp(path: Path) -> list[str]:
    """Every text of a C++ file, those that follow each other joined as the compiler does."""
    literal = r'"(?:[^"\\\n]|\\.)*"'
    text = path.read_text(encoding="utf-8")
    runs = re.findall(rf"{literal}(?:\s*{literal})*", text)
    return ["".join(part[1:-1] for part in re.findall(literal, run)) for run in runs]


def sources() -> str:
    found = [text for path in PACKAGE.rglob("*.py") for text in texts_of_python(path)]
    for path in (ROOT / "cpp").rglob("*"):
        if path.suffix in (".cpp", ".h", ".cu", ".cmake") and "tests" not in path.parts:
            found += texts_of_cpp(path)
    cmake = (ROOT / "cpp" / "cmake" / "cuda_switch.cmake").read_text(encoding="utf-8")
    found += [re.sub(r'"\s+"', "", cmake)]
    return "\n".join(found).replace('\\"', '"')


SOURCES = sources()


def test_there_are_enough_entries() -> None:
    assert len(ENTRIES) >= 25
    assert len(MESSAGES) >= 25 and len(MESSAGES) == TEXT.count("**Message:**")


@pytest.mark.parametrize("title", ENTRIES)
def test_an_entry_says_what_to_look_at_or_do(title: str) -> None:
    assert re.search(r"^- (\*\*(Look|Do|Means|Message)|`)", ENTRIES[title], re.MULTILINE)
    engines = title in ("vLLM", "SGLang", "transformers")
    assert engines or re.search(r"\*\*(Do|Means)", ENTRIES[title])


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_is_what_the_code_says(message: str) -> None:
    fragments = [part for part in message.split("...") if len(part.strip()) >= SHORTEST]
    assert fragments
    assert [part for part in fragments if part not in SOURCES] == []


def test_statistics_exist() -> None:
    top = {field.name for field in fields(hc.CacheStats)}
    tier = {field.name for field in fields(hc.TierStats)}
    found = [re.fullmatch(r"(?:cache\.)?stats\(\)\.(\w+)(?:\.(\w+))?", each) for each in QUOTED]
    named = [match for match in found if match]
    assert len(named) >= 15
    for match in named:
        assert match[1] in top, match[0]
        assert match[2] is None or (match[1] in ("device", "host") and match[2] in tier), match[0]


def test_metrics_exist() -> None:
    exported = {
        f"hicache_{metric.name}{end}": metric
        for metric in METRICS
        for end in EXPORTED.get(metric.type, ("",))
    }
    found = [re.fullmatch(r"(hicache_\w+)(?:\{(\w+)=\"(\w+)\"\})?", each) for each in QUOTED]
    named = [match for match in found if match and match[1] != "hicache_nsa"]
    assert len(named) >= 10
    for match in named:
        assert match[1] in exported, match[0]
        if match[2]:
            assert match[3] in dict(exported[match[1]].labels)[match[2]], match[0]


def test_every_reason_of_a_miss_is_named() -> None:
    (missed,) = (metric for metric in METRICS if metric.name == "missed_tokens")
    assert [each for each in dict(missed.labels)["reason"] if f"`{each}`" not in TEXT] == []


def test_lines_of_the_doctor_exist() -> None:
    flat = " ".join(TEXT.split())
    lists = re.findall(r"\b[Ll]ines? ((?:`[^`]+`(?: \([^)]*\))?(?:,| and|) ?)+)", flat)
    names = [name for each in lists for name in re.findall(r"`([^`]+)`", each)]
    assert len(set(names)) >= 10
    assert [name for name in names if name not in CHECKS] == []


COMMANDS = sorted(
    {each for each in QUOTED if re.match(r"hicache (bench|size|doctor|simulate)", each)}
)


@pytest.mark.parametrize("shown", [*COMMANDS, *re.findall(r"^hicache .+$", TEXT, re.MULTILINE)])
def test_a_shown_command_is_accepted(
    shown: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "TRACE").touch()
    command: click.Command = hicache
    words = shlex.split(shown)[1:]
    while isinstance(command, click.Group):
        command = command.commands[words.pop(0)]
    arguments = [each for each in command.params if isinstance(each, click.Argument)]
    if arguments and not words:
        words = ["TRACE"]
    # click keeps the names of --help that it sees first
    command.make_context(command.name, words, **hicache.context_settings)


def test_what_is_named_of_a_pool_exists() -> None:
    with hc.HiCache(hc.formats.dsa(num_layers=1), device_pages=1, host_pages=1) as cache:
        assert cache.host_pool.wait_ready() and cache.host_pool.huge_page_bytes() >= 0
        kind = cache.host_pool.memory_kind
        assert (kind.pageable_bytes, kind.numa_node) == (kind.nbytes, None)
        assert "direct" in cache.engine.counters()["h2d"]
        match = cache.match_prefix([1])
        assert match.load_tokens == 0 and cache.load_back(match) is None
