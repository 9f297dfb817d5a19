"""``hicache doctor``: what is there, what it means, what to do."""

from __future__ import annotations

import sys

import click

from hicache_nsa.cli.bench_options import json_option
from hicache_nsa.cli.json_output import write_json
from hicache_nsa.cli.option_types import device as device_type


def _device(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    return None if value is None else device_type(context, parameter, value)


@click.command()
@click.option(
    "--device",
    callback=_device,
    metavar="cpu|cuda[:N]",
    help="What to examine.  [default: the GPU, where there is one that this build can use]",
)
@json_option
def doctor(device: str | None, json_target: str | None) -> None:
    """Look at this machine: versions, driver, GPU, link, memory. Copies for two seconds.

    Each line is ok, warn or fail; what is not ok has one fix. Nothing is changed. Exit code 1 if a
    line fails, or ^C ends the copies, which prints what is there.
    """
    from hicache_nsa.cli.doctor_text import report_text
    from hicache_nsa.doctor import examine, read_facts

    if sys.stderr.isatty():
        click.echo("Copying for two seconds ...", err=True)
    report = examine(read_facts(device))
    if json_target != "-":
        click.echo("\n".join(report_text(report)))
    if json_target is not None:
        write_json(json_target, report.to_json(), {"device": report.device})
    sys.exit(0 if report.passed else 1)
