"""kill -9 at random instants, the short run: ``drive.py`` is the long one."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from kill_model import Known
from mutants import MUTANTS

DRIVE = [sys.executable, str(Path(__file__).parent / "drive.py")]


def test_nothing_acknowledged_is_lost_and_nothing_else_matches(tmp_path: Path) -> None:
    progress = tmp_path / "progress.json"
    for kills in (60, 120):  # the second run goes on
        command = [*DRIVE, "--kills", str(kills), "--resume", str(progress)]
        run = subprocess.run(command, capture_output=True, text=True)
        assert run.returncode == 0, run.stdout + run.stderr
        said = re.match(r"(\d+) kills \((\d+) in the middle of a call", run.stdout)
        assert said is not None and int(said[1]) >= kills and int(said[2]) >= kills // 10


@pytest.mark.parametrize("mutant", sorted(MUTANTS))
def test_a_broken_page_table_is_found(mutant: str) -> None:
    run = subprocess.run(
        [*DRIVE, "--kills", "300", "--mutant", mutant], capture_output=True, text=True
    )
    assert run.returncode == 1, run.stdout
    assert re.search("never acknowledged|pages are lost|other bytes|published already", run.stderr)


def test_the_model_knows_what_may_be() -> None:
    page = [(None, 4 * end, end) for end in (1, 2, 3)]
    known = Known(set(page[:2]))
    assert known.wrong(set(page[:2]), 4) is None
    assert "1 acknowledged pages are lost" in str(known.wrong(set(page[:1]), 4))
    assert "never acknowledged" in str(known.wrong(set(page), 4))
    assert "none before it" in str(known.wrong({page[1]}, 4))
    known.begin("evict_host", 4, frozenset({page[2]}), frozenset(), True)
    assert known.wrong(set(page[:1]), 4) is None and known.wrong(set(page), 4) is None
    assert "2 acknowledged pages are lost" in str(known.wrong(set(), 4))
    known.begin("invalidate", 0, frozenset(), frozenset(), True)
    assert known.wrong(set(), 4) is None
    assert "1 acknowledged pages are lost" in str(known.wrong(set(page[:1]), 4))
    known.end(set(), set(page), frozenset(), True)
    assert "never acknowledged" in str(known.wrong(set(page[:1]), 4))
