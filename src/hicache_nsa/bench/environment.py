"""What a measured figure depends on: the machine, the versions, the build, the command."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from hicache_nsa import _core


def circumstances(command: object, more: Mapping[str, object]) -> dict[str, object]:
    """How every report begins: version, ``command`` as it was given, environment with ``more``."""
    return {
        "version": _installed("hicache-nsa"),
        "command": command,
        "environment": {**environment(), **more},
    }


def environment() -> dict[str, object]:
    """The machine and the versions, as far as they matter for a figure."""
    return {
        "python": platform.python_version(),
        "torch": _installed("torch"),
        "numpy": _installed("numpy"),
        "system": platform.system(),
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": usable_cores(),
        "build": _core.build_info(),
    }


def usable_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _installed(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
