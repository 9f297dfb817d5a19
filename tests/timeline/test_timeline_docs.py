"""docs/timeline.md: its code runs, and it names every track."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from trace_format import read_trace

from hicache_nsa.timeline import TRACKS

TEXT = (Path(__file__).parents[2] / "docs" / "timeline.md").read_text(encoding="utf-8")


def test_the_code_runs(tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 1
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", blocks[0]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (run.returncode, run.stderr) == (0, "")
    rows = {each.row.split(",")[0] for each in read_trace(tmp_path / "timeline.json")}
    assert rows == {"scheduler", "compute", "D2H"}


def test_every_track_has_its_line() -> None:
    cells = re.findall(r"^\| ([\w, ;]+?) \|", TEXT, re.MULTILINE)
    assert set(TRACKS) <= {name.lower() for cell in cells for name in re.split("[,;] ", cell)}
