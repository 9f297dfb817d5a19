"""The code in the docs runs, and policies.md and memory.md name every option there is."""

import inspect
import re
import subprocess
import sys
import tempfile
from dataclasses import fields
from pathlib import Path

import pytest
from layout import ROOT

from hicache_nsa import HiCache
from hicache_nsa.cache.write_policy import WRITE_POLICIES
from hicache_nsa.engine_options import CHOICES
from hicache_nsa.pools.memory_options import HostMemoryOptions
from hicache_nsa.sizes import parse_size
from hicache_nsa.tree import EVICTION_POLICIES

TEXT = (ROOT / "docs" / "policies.md").read_text(encoding="utf-8")
KNOBS = re.findall(r"^\| `(\w+)` \| .* \| (.+?) \| .* \|$", TEXT, re.MULTILINE)
MEMORY = (ROOT / "docs" / "memory.md").read_text(encoding="utf-8")
MEMORY_ROWS = re.findall(r"^\| `(\w+)` \| .+? \| (.+?) \| .* \|$", MEMORY, re.MULTILINE)
RANKS = (ROOT / "docs" / "ranks.md").read_text(encoding="utf-8")
EVENTS = (ROOT / "docs" / "events.md").read_text(encoding="utf-8")
SHOWN_FILE = "/dev/shm/hicache-docs"


def blocks(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def run_blocks(text: str) -> None:
    """One after the other, in a process of their own, any warning an error."""
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", "\n".join(blocks(text))],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (run.returncode, run.stderr) == (0, "")


def test_the_blocks_are_found() -> None:
    assert len(blocks(TEXT)) >= 6
    assert TEXT.count("```") == 2 * len(blocks(TEXT))
    others = 1  # a refusal
    assert len(blocks(MEMORY)) >= 5
    assert MEMORY.count("```") == 2 * (len(blocks(MEMORY)) + others)


def test_the_blocks_of_policies_run_one_after_the_other() -> None:
    run_blocks(TEXT)


def test_the_blocks_of_memory_run_one_after_the_other() -> None:
    assert MEMORY.count(SHOWN_FILE) == 1
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        file = Path(folder) / "pool"
        run_blocks(MEMORY.replace(SHOWN_FILE, str(file)))
        assert file.stat().st_size > 0


def test_the_block_of_ranks_runs_alone() -> None:
    pytest.importorskip("torch")
    assert RANKS.count("```") == 2 * len(blocks(RANKS)) == 2
    run_blocks(RANKS)


def test_the_blocks_of_events_run_one_after_the_other() -> None:
    assert len(blocks(EVENTS)) == 2 and EVENTS.count("```") == 4
    run_blocks(EVENTS)


def test_every_write_and_eviction_policy_is_named() -> None:
    first_cells = " ".join(re.findall(r"^\| (`.+?) \|", TEXT, re.MULTILINE))
    for name in (*WRITE_POLICIES, *EVICTION_POLICIES):
        assert f"`{name}`" in first_cells, name


@pytest.mark.parametrize(("option", "default"), KNOBS, ids=[name for name, _ in KNOBS])
def test_the_defaults_are_those_of_the_constructor(option: str, default: str) -> None:
    value = inspect.signature(HiCache).parameters[option].default
    if value is None:
        assert (option, default) == ("load_back_threshold", "one page")
    elif callable(value):
        assert default == f"`{value.__module__}.{value.__name__}`"
    elif isinstance(value, str):
        assert default == f'`"{value}"`'
    else:
        assert float(default) == value


def test_the_knobs_are_found() -> None:
    assert {"write_policy", "low_water", "clock", "acks"} <= {name for name, _ in KNOBS}


def test_every_option_of_host_memory_has_its_row_and_default() -> None:
    rows = dict(MEMORY_ROWS)
    assert sorted(rows) == sorted(field.name for field in fields(HostMemoryOptions))
    for field in fields(HostMemoryOptions):
        said, default = rows[field.name].partition(":")[0].strip("`"), field.default
        if field.name in ("prepare_first", "prepare_step"):
            assert parse_size(said.replace(" ", ""), field.name) == default
        else:
            assert said.strip('"') == str(default), field.name


def test_every_way_to_verify_is_named() -> None:
    found = re.findall(r'^\| `"(\w+)"`', MEMORY, re.MULTILINE)
    assert found == list(CHOICES["verify"])
