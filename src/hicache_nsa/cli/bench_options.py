"""Options that the benches have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from hicache_nsa.bench.settings import BenchSettings
from hicache_nsa.cli.json_output import check_target
from hicache_nsa.cli.option_types import (
    AUTO_YES_NO,
    MOST_COUNT,
    count,
    decided,
    device,
    list_of,
    name_of,
)
from hicache_nsa.pools import LAYOUTS
from hicache_nsa.transfer import IO_BACKENDS

DEFAULTS = BenchSettings()
MOST_LAYERS = 1024
MOST_ROUNDS = 10_000
MOST_THREADS = 1024
MOST_BLOCKS = 1_000_000

Command = TypeVar("Command", bound=Callable[..., Any])


def list_option(
    name: str, one: Callable[[str], Any], default: tuple[Any, ...], help: str
) -> Callable[[Command], Command]:
    """An option whose value is a list with commas."""
    return click.option(
        name,
        default=",".join(f"{each:g}" if isinstance(each, float) else str(each) for each in default),
        show_default=True,
        callback=list_of(one),
        metavar="LIST",
        help=help,
    )


json_option = click.option(
    "--json", "json_target", callback=check_target, metavar="OUT", help="Write JSON; - is stdout."
)

COMMON = (
    click.option(
        "--device",
        callback=device,
        metavar="cpu|cuda[:N]",
        default=DEFAULTS.device,
        show_default=True,
        help="On cpu a copy runs between two pools in host memory.",
    ),
    click.option(
        "--kv-dtype",
        type=click.Choice(["fp8_ds_mla", "bf16", "fp8", "fp32"]),
        default=DEFAULTS.kv_dtype,
        show_default=True,
        help="Format of the latent rows; DeepSeek-V3.2's buffers, pages of 64 tokens.",
    ),
    click.option(
        "--layers",
        type=click.IntRange(1, MOST_LAYERS),
        default=DEFAULTS.layers,
        show_default=True,
    ),
    click.option(
        "--pages",
        callback=list_of(count),
        metavar="LIST",
        help="Pages of a copy.  [default: 512 on cuda, 64 on cpu]",
    ),
    click.option(
        "--pool",
        type=click.IntRange(2, MOST_COUNT),
        help="Pages of each pool.  [default: twice what is copied at once]",
    ),
    list_option("--runs", count, DEFAULTS.host_runs, "Host pages lie in runs of so many."),
    list_option("--device-runs", count, DEFAULTS.device_runs, "The same for device pages."),
    list_option("--layout", name_of(LAYOUTS), DEFAULTS.layouts, "Order of the host pool."),
    list_option("--io-backend", name_of(IO_BACKENDS), DEFAULTS.io_backends, "Way to copy."),
    click.option(
        "--beside-compute",
        type=click.Choice(list(AUTO_YES_NO)),
        default="auto",
        show_default=True,
        callback=decided,
        help="What the caller says of it; auto: the engine looks at the stream.",
    ),
    click.option("--packed", is_flag=True, help="A page's record is contiguous on the device."),
    click.option(
        "--filter", "pattern", metavar="GLOB", help='Only cases whose id matches, as "*/h2d".'
    ),
    click.option(
        "--rounds",
        type=click.IntRange(1, MOST_ROUNDS),
        default=DEFAULTS.rounds,
        show_default=True,
        help="Rounds that are counted; one more warms up.",
    ),
    click.option(
        "--blocks",
        type=click.IntRange(0, MOST_BLOCKS),
        default=DEFAULTS.blocks,
        help="Of the GPU's kernel.  [default: the engine's]",
    ),
    click.option(
        "--workers",
        type=click.IntRange(0, MOST_THREADS),
        default=DEFAULTS.workers,
        help="Host threads a direction on the CPU, of the memcpy too.  [default: cores, at most 4]",
    ),
    json_option,
)


def common_options(command: Command) -> Command:
    """Give ``command`` all of COMMON, in that order, behind its own."""
    for option in reversed(COMMON):
        command = option(command)
    return command
