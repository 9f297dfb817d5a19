import subprocess
import sys
from pathlib import Path

from layout import PACKAGE


def test_the_stub_of_the_extension_is_current(tmp_path: Path) -> None:
    made = tmp_path / "_core.pyi"
    command = [sys.executable, "-m", "nanobind.stubgen", "-m", "hicache_nsa._core", "-o", str(made)]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    stub = PACKAGE / "_core.pyi"
    assert made.read_text() == stub.read_text(), (
        "the bindings have changed: python -m nanobind.stubgen -m hicache_nsa._core "
        f"-o {stub.relative_to(PACKAGE.parents[1])}"
    )
