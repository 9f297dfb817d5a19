"""``hicache bench pin``."""

from __future__ import annotations

from typing import Any

import click

from hicache_nsa import _core
from hicache_nsa.bench.pin.settings import GIB, PinSettings
from hicache_nsa.cli.bench_options import json_option
from hicache_nsa.cli.bench_run import Show, run_bench
from hicache_nsa.cli.option_types import device
from hicache_nsa.pools.memory_options import HUGE_PAGES, MOST_THREADS
from hicache_nsa.sizes import parse_size

MOST_ALLOC = 8 * GIB


def _size(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    try:
        name = str(parameter.name).replace("_", "-")
        return None if value is None else parse_size(value, f"--{name}")
    except ValueError as error:
        raise click.BadParameter(str(error), context, parameter) from error


def _numa(context: click.Context, parameter: click.Parameter, value: str) -> str | int:
    return int(value) if value.isdecimal() else value


def _device(context: click.Context, parameter: click.Parameter, value: str | None) -> str:
    """As given; else a GPU, if there is one."""
    if value is not None:
        return device(context, parameter, value)
    try:
        return f"cuda:{_core.cuda_device_index('cuda')}"
    except RuntimeError:
        return "cpu"


@click.command()
@click.option("--size", callback=_size, default="8GiB", show_default=True, help="Of the host pool.")
@click.option(
    "--alloc-size",
    callback=_size,
    help="That cudaHostAlloc is timed with.  [default: the pool's, at most 8 GiB]",
)
@click.option(
    "--device",
    callback=_device,
    metavar="cpu|cuda[:N]",
    help="That registers it; on cpu nothing does.  [default: cuda where there is a GPU]",
)
@click.option(
    "--huge-pages", type=click.Choice(HUGE_PAGES), default="transparent", show_default=True
)
@click.option("--numa", callback=_numa, metavar="auto|off|NODE", default="auto", show_default=True)
@click.option(
    "--threads",
    "prepare_threads",
    type=click.IntRange(0, MOST_THREADS),
    default=0,
    help="That touch memory.  [default: one a core, of four and more all but one]",
)
@click.option(
    "--memory-limit",
    callback=_size,
    help="That the pool may take.  [default: what the system says]",
)
@click.option(
    "--rounds",
    type=click.IntRange(1, 100),
    default=3,
    show_default=True,
    help="Of each case but the one behind a cache.",
)
@json_option
def pin(
    json_target: str | None,
    size: int,
    alloc_size: int | None,
    rounds: int,
    device: str,
    **memory: Any,
) -> None:
    """Seconds until a host pool of --size is ready, and until it is given back (medians).

    touch: the kernel backs it. touch_register: and a GPU has it registered, chunk by chunk.
    cuda_host_alloc: for comparison. background: behind a cache that serves meanwhile; the longest
    gaps are those of a Python thread that beats every millisecond, and of one that launches. One
    run over as much memory comes first and does not count. The first and the last byte of every 4
    KiB are written and read back.
    """
    from hicache_nsa.bench.pin.bench import PinBench

    settings = PinSettings(size, alloc_size or min(size, MOST_ALLOC), rounds, device, memory)
    run_bench(lambda: PinBench(settings), _load_show, json_target)


def _load_show() -> Show:
    from hicache_nsa.cli.pin_table import print_pin

    return print_pin
