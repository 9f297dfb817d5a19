from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hicache_nsa import _core

SCRIPT = Path(__file__).parents[2] / "bench" / "timeline.py"


def test_the_script_runs() -> None:
    run = subprocess.run(
        [sys.executable, str(SCRIPT), "--rounds", "2", "--times", "20"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.count(" ns ") >= 11
    assert "match_prefix of 512 tokens, off" in run.stdout


def test_no_calls_are_not_measured() -> None:
    with pytest.raises(ValueError, match="times is 0"):
        _core.measure_timeline(0)
