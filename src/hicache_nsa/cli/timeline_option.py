"""The option ``--timeline OUT.json``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from hicache_nsa.cli.json_output import check_target


def timeline_option(of_what: str) -> Callable[[Any], Any]:
    """A decorator: ``timeline``, a Path that can be written, or None."""
    return click.option(
        "--timeline",
        callback=_check,
        metavar="OUT.json",
        help=f"Record {of_what}, and write it for Perfetto (ui.perfetto.dev).",
    )


def _check(context: click.Context, parameter: click.Parameter, target: str | None) -> Path | None:
    if target == "-":
        raise click.BadParameter("a timeline goes to a file, not to stdout", context, parameter)
    checked = check_target(context, parameter, target)
    return None if checked is None else Path(checked)
