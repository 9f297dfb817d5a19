"""The code that docs/policies.md shows runs, and names every option there is to choose from."""

import inspect
import re
import subprocess
import sys

import pytest
from layout import ROOT

from hicache_nsa import HiCache
from hicache_nsa.cache.write_policy import WRITE_POLICIES
from hicache_nsa.tree import EVICTION_POLICIES

TEXT = (ROOT / "docs" / "policies.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
KNOBS = re.findall(r"^\| `(\w+)` \| .* \| (.+?) \| .* \|$", TEXT, re.MULTILINE)


def test_the_blocks_are_found() -> None:
    assert len(BLOCKS) >= 6
    assert TEXT.count("```") == 2 * len(BLOCKS)


def test_the_blocks_run_one_after_the_other() -> None:
    run = subprocess.run(
        [sys.executable, "-c", "\n".join(BLOCKS)], capture_output=True, text=True, timeout=60
    )
    assert (run.returncode, run.stderr) == (0, "")


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
