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


def test_the_readme_shows_the_quickstart() -> None:
    code = (ROOT / "examples" / "quickstart.py").read_text(encoding="utf-8")
    body = code.partition('"""\n\n')[2]
    assert f"```python\n{body}```" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_names_the_commands_and_links_files_that_exist() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make demo" in readme
    assert "make test" in readme
    targets = [part.partition(")")[0] for part in readme.split("](")[1:]]
    local = [target for target in targets if "://" not in target]
    assert [target for target in local if not (ROOT / target).exists()] == []


def test_the_timeline_is_current() -> None:
    code = "import timeline; print(timeline.picture(), end='')"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT / "docs", capture_output=True, text=True, check=True
    )
    assert run.stdout == (ROOT / "docs" / "timeline.svg").read_text(encoding="utf-8")
