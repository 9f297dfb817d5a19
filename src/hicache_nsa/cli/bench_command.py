"""``hicache bench``: what copies do on this machine, alone and beside a model that computes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hicache_nsa.bench.settings import MODES, OverlapSettings, TransferSettings
from hicache_nsa.cli.bench_options import common_options, json_option, list_option
from hicache_nsa.cli.json_output import write_json
from hicache_nsa.cli.option_types import gpu, name_of, ratio
from hicache_nsa.demo.extra import INSTALL_EXTRA
from hicache_nsa.errors import HiCacheError
from hicache_nsa.transfer import DIRECTIONS

if TYPE_CHECKING:
    from hicache_nsa.bench.bench import Bench

EXTRA_MODULES = {"torch", "rich"}
TRANSFER = TransferSettings()
OVERLAP = OverlapSettings()


@click.group()
def bench() -> None:
    """Measure copies on this machine; transfer and overlap verify every byte.

    Exit code 1 if a byte is wrong, a copy fails or ^C ends it early, which prints what is there.
    """


@bench.command()
@list_option("--direction", name_of(DIRECTIONS), TRANSFER.directions, "h2d: loads, d2h: saves.")
@list_option(
    "--mode", name_of(MODES), TRANSFER.modes, "Of loads: awaited layer by layer, or as a whole."
)
@click.option("--both", is_flag=True, help="Also both directions at once.")
@click.option(
    "--gemm",
    is_flag=True,
    help="Also beside a stream of bf16 matrix products (cuda): the joint measurement.",
)
@click.option(
    "--replay",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="TRACE.jsonl",
    help="Pages as the replay of a trace through these pools leaves them, instead of runs.",
)
@click.option(
    "--replay-device",
    type=click.IntRange(min=1),
    help="Device pages of the replay; --pool are its host pages.  [default: a quarter of them]",
)
@click.option(
    "--replay-limit", type=click.IntRange(min=1), help="Requests to replay.  [default: all]"
)
@common_options
def transfer(json_target: str | None, directions: tuple[str, ...] = (), **options: Any) -> None:
    """Loads and saves of scattered pages against one contiguous copy of as many bytes.

    The contiguous copy is timed in turn with the engine's: by copy engine out of or into pinned
    memory on a GPU, by as many threads on the CPU. share: of its speed, the median of the rounds.
    """
    from hicache_nsa.bench.transfer import TransferBench

    settings = TransferSettings(**_renamed(options, direction="directions", mode="modes"))
    _run(lambda: TransferBench(settings), json_target)


@bench.command()
@list_option("--ratios", ratio, OVERLAP.ratios, "Computing a layer, by the copy's time a layer.")
@click.option(
    "--work",
    type=click.Choice(["sleep", "gemm"]),
    default=OVERLAP.work,
    show_default=True,
    help="sleep: leaves the cores to the copy. gemm: matrix products.",
)
@common_options
def overlap(json_target: str | None, **options: Any) -> None:
    """A load while a stream computes layer by layer behind it.

    over: time of both together by that of the longer one and one layer.
    """
    from hicache_nsa.bench.overlap import OverlapBench

    settings = OverlapSettings(**_renamed(options))
    _run(lambda: OverlapBench(settings), json_target)


@bench.command()
@click.option(
    "--device",
    callback=gpu,
    metavar="cuda[:N]",
    default="cuda",
    show_default=True,
    help="The GPU whose link it is.",
)
@click.option("--again", is_flag=True, help="Measure it now, in less than a second, and keep that.")
@json_option
def link(device: str, again: bool, json_target: str | None) -> None:
    """The link curve that --io-backend auto chooses by: what copies of each size cost.

    It is measured once a machine and kept. piece: one of a batch of contiguous copies; rectangle:
    one 2-D copy; kernel: one layer by the GPU's kernel.
    """
    with _told_as_exit_code():
        from hicache_nsa.bench.link import link_report
        from hicache_nsa.cli.link_table import print_link

        report = link_report(device, again)
        if json_target != "-":
            print_link(report)
        if json_target is not None:
            write_json(json_target, report.to_json(), {"device": device, "gpu": report.identity})


def _renamed(options: dict[str, Any], **more: str) -> dict[str, Any]:
    """Options under the names of the settings."""
    new = {"runs": "host_runs", "layout": "layouts", "io_backend": "io_backends", **more}
    return {new.get(name, name): value for name, value in options.items()}


def _run(make: Callable[[], Bench[Any]], json_target: str | None) -> None:
    """Make and run a bench, print its report, and end with its exit code."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # torch's threads leave the cores to copies
    with _told_as_exit_code():
        passed = _measured(make, json_target)
    sys.exit(0 if passed else 1)


@contextmanager
def _told_as_exit_code() -> Iterator[None]:
    """What the machine, a copy or a missing extra refuses is a message and exit code 1."""
    try:
        yield
    except (HiCacheError, OSError) as error:
        raise click.ClickException(str(error)) from error
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in EXTRA_MODULES:
            raise
        raise click.ClickException(f"the bench needs {missing}: {INSTALL_EXTRA}") from error


def _measured(make: Callable[[], Bench[Any]], json_target: str | None) -> bool:
    """Whether all went well. Shows the report also when a copy fails: what came before stands."""
    from hicache_nsa.cli.bench_table import print_report
    from hicache_nsa.cli.progress import progress_bar

    try:
        prepared = make()
    except ValueError as error:  # sizes that do not fit each other, a filter that matches nothing
        raise click.UsageError(str(error)) from error
    report = prepared.report
    with prepared:
        try:
            with progress_bar(prepared.steps) as step:
                prepared.run(step)
        except HiCacheError as error:
            report.error = str(error)
    if json_target != "-":
        print_report(report)
    if json_target is not None:
        write_json(json_target, report.to_json(), report.machine)
    return report.passed
