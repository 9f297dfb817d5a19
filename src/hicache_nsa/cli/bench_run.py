"""Running a bench from the command line: its report, and what refuses it as an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import click

from hicache_nsa.cli.json_output import write_json
from hicache_nsa.errors import HiCacheError
from hicache_nsa.extras import install_extra

EXTRA_MODULES = {"torch", "rich"}


class Report(Protocol):
    """What every bench finds out."""

    error: str | None

    @property
    def machine(self) -> Mapping[str, object]:
        """What the JSON's environment has beside what every command reports."""

    @property
    def passed(self) -> bool:
        """All was measured and right."""

    def to_json(self) -> dict[str, object]:
        """The content of the JSON."""


Show = Callable[[Any], None]


def run_bench(
    make: Callable[[], Any], load_show: Callable[[], Show], json_target: str | None
) -> None:
    """Make and run a bench, show its report, and end with its exit code.

    load_show: imports what prints a report, which needs rich.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # torch's threads leave the cores to copies
    with told_as_exit_code():
        passed = _measured(make, load_show(), json_target)
    sys.exit(0 if passed else 1)


@contextmanager
def told_as_exit_code(command: str = "the bench", extra: str = "demo") -> Iterator[None]:
    """What the machine, a copy or a missing extra refuses is a message and exit code 1.

    extra: the one that has what ``command`` needs.
    """
    try:
        yield
    except (HiCacheError, OSError) as error:
        raise click.ClickException(str(error)) from error
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in EXTRA_MODULES:
            raise
        raise click.ClickException(f"{command} needs {missing}: {install_extra(extra)}") from error


def _measured(make: Callable[[], Any], show: Show, json_target: str | None) -> bool:
    """Whether all went well. Shows the report also when a copy fails: what came before stands."""
    from hicache_nsa.cli.progress import progress_bar

    try:
        prepared = make()
    except ValueError as error:  # sizes that do not fit each other, a filter that matches nothing
        raise click.UsageError(str(error)) from error
    report: Report = prepared.report
    with prepared:
        try:
            with progress_bar(prepared.steps) as step:
                prepared.run(step)
        except HiCacheError as error:
            report.error = str(error)
    if json_target != "-":
        show(report)
    if json_target is not None:
        write_json(json_target, report.to_json(), report.machine)
    return report.passed
