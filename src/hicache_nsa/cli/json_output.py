"""Where ``--json OUT`` writes: a file, or stdout for ``-``."""

from __future__ import annotations

import json
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import click


def check_target(
    context: click.Context, parameter: click.Parameter, target: str | None
) -> str | None:
    """Callback of ``--json``: refuse what cannot be written before the work starts."""
    if target is None or target == "-":
        return target
    path = Path(target)
    if path.is_dir():
        raise click.BadParameter(f"{target} is a folder", context, parameter)
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise click.BadParameter(f"{target} cannot be written", context, parameter)
    return target


def write_json(target: str, content: dict[str, object]) -> None:
    """Write what every command reports (version, command, environment), then ``content``."""
    text = json.dumps({**_circumstances(), **content}, indent=2, default=str)
    if target == "-":
        click.echo(text)
    else:
        Path(target).write_text(text + "\n", encoding="utf-8")


def _circumstances() -> dict[str, object]:
    return {
        "version": _installed("hicache-nsa"),
        "command": ["hicache", *sys.argv[1:]],
        "environment": {
            "python": platform.python_version(),
            "torch": _installed("torch"),
            "numpy": _installed("numpy"),
            "system": platform.system(),
            "machine": platform.machine(),
            "processor": _processor(),
            "cores": usable_cores(),
        },
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
