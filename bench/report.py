"""What every bench writes: the machine, the command, the cases."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path

import hicache_nsa
from hicache_nsa import _core


def environment() -> dict[str, object]:
    """The machine and the build, as far as they matter for a figure."""
    model = "unknown"
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "hicache_nsa": hicache_nsa.__version__,
        "build": _core.build_info(),
    }


def write_report(path: str | None, command: str, cases: list[dict[str, object]], **more) -> None:
    """Write {environment, command, cases, ...} to ``path`` (None: nothing is written)."""
    if path is None:
        return
    report = {"environment": environment(), "command": command, **more, "cases": cases}
    Path(path).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
