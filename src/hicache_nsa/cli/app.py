"""The command group; each command has a module of its own."""

from __future__ import annotations

import click

from hicache_nsa.cli.bench_command import bench
from hicache_nsa.cli.demo_command import demo
from hicache_nsa.cli.doctor_command import doctor
from hicache_nsa.cli.simulate_command import simulate
from hicache_nsa.cli.size_command import size


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="hicache-nsa", prog_name="hicache")
def hicache() -> None:
    """Host-memory KV cache tier for LLM engines with sparse attention."""


hicache.add_command(bench)
hicache.add_command(demo)
hicache.add_command(doctor)
hicache.add_command(simulate)
hicache.add_command(size)
