"""What every bench here writes: the machine, the command, the cases."""

from __future__ import annotations

import json
from pathlib import Path

from hicache_nsa.bench.environment import circumstances


def write_report(
    path: str | None, command: str, cases: list[dict[str, object]], **more: object
) -> None:
    """Write {version, command, environment, ``more``, cases} to ``path`` (None: nothing)."""
    if path is None:
        return
    report = {**circumstances(command, {}), **more, "cases": cases}
    Path(path).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
