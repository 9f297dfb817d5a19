"""Where ``--json OUT`` writes: a file, or stdout for ``-``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from hicache_nsa.bench.environment import circumstances


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


def write_json(
    target: str, content: Mapping[str, object], environment: Mapping[str, object] | None = None
) -> None:
    """Write what every command reports (version, command, environment), then ``content``.

    environment: what this command knows of it beside that.
    """
    begin = circumstances(["hicache", *_without_target(sys.argv[1:])], environment or {})
    text = json.dumps({**begin, **content}, indent=2, default=str)
    if target == "-":
        click.echo(text)
    else:
        Path(target).write_text(text + "\n", encoding="utf-8")


def _without_target(arguments: Sequence[str]) -> list[str]:
    """``arguments`` less ``--json OUT``: where a report goes changes nothing in it."""
    kept: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument == "--json":
            next(rest, None)
        elif not argument.startswith("--json="):
            kept.append(argument)
    return kept
