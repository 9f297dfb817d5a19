"""Scenarios in processes of their own: one that hangs or loses the GPU takes no other test along.

They run side by side, since each takes seconds to begin.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SECONDS = 90
CANNOT = 77  # exit status of a scenario that cannot be made here; the last line says why


class Apart:
    """Starts functions of ``scenarios.py``, and says what became of them."""

    def __init__(self) -> None:
        self._running: dict[str, subprocess.Popen[str]] = {}

    def start(self, scenario: str, **environment: str) -> None:
        self._running[scenario] = subprocess.Popen(
            [sys.executable, str(HERE / "scenarios.py"), scenario],
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def passes(self, scenario: str) -> None:
        """Wait for the scenario; its output is the message of a test that fails."""
        if scenario not in self._running:
            pytest.skip(f"{scenario} needs a C compiler")
        process = self._running[scenario]
        try:
            output, _ = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
            pytest.fail(f"{scenario} did not end:\n{output}")
        if process.returncode == CANNOT:
            pytest.skip(output.splitlines()[-1])
        assert process.returncode == 0, f"{scenario}: exit {process.returncode}\n{output}"

    def close(self) -> None:
        for process in self._running.values():
            process.kill()
            process.communicate()


def driver_faults(folder: Path) -> Path | None:
    """``driver_faults.c`` as a library to preload; None without a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    library = folder / "driver_faults.so"
    source = HERE / "driver_faults.c"
    flags = ["-O2", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl", "-lpthread"]
    subprocess.run([compiler, *flags], check=True)
    return library
