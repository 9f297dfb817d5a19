import subprocess
import sys
from pathlib import Path

import pytest
from layout import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_example_runs(example: Path, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, str(example)], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout
    assert run.stderr == ""


def test_the_drawing_of_a_request_is_current() -> None:
    code = "import request; print(request.picture(), end='')"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT / "docs", capture_output=True, text=True, check=True
    )
    assert run.stdout == (ROOT / "docs" / "request.svg").read_text(encoding="utf-8")
