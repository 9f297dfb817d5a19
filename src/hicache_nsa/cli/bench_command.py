"""``hicache bench``: what copies, host memory and the tree do on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hicache_nsa.bench.settings import (
    MODES,
    OverlapSettings,
    TransferSettings,
    VerifySettings,
)
from hicache_nsa.cli.bench_options import common_options, json_option, list_option
from hicache_nsa.cli.bench_pin_command import pin
from hicache_nsa.cli.bench_run import Show, run_bench, told_as_exit_code
from hicache_nsa.cli.bench_tree_command import tree
from hicache_nsa.cli.json_output import write_json
from hicache_nsa.cli.option_types import gpu, name_of, ratio
from hicache_nsa.cli.timeline_option import timeline_option
from hicache_nsa.transfer import DIRECTIONS

TRANSFER = TransferSettings()
OVERLAP = OverlapSettings()
VERIFY = VerifySettings()


@click.group()
def bench() -> None:
    """Measure copies, host memory and the tree here; transfer, overlap and verify prove every byte.

    Exit code 1 if a byte or a match is wrong, a copy fails or ^C ends it early, which prints what
    is there.
    """


bench.add_command(pin)
bench.add_command(tree)


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
    run_bench(lambda: TransferBench(settings), _load_show, json_target)


@bench.command()
@list_option("--ratios", ratio, OVERLAP.ratios, "Computing a layer, by the copy's time a layer.")
@click.option(
    "--work",
    type=click.Choice(["sleep", "gemm"]),
    default=OVERLAP.work,
    show_default=True,
    help="sleep: leaves the cores to the copy. gemm: matrix products.",
)
@timeline_option("one more load, of the only case, beside its computing")
@common_options
def overlap(json_target: str | None, timeline: Path | None, **options: Any) -> None:
    """A load while a stream computes layer by layer behind it.

    over: time of both together by that of the longer one and one layer.
    """
    from hicache_nsa.bench.overlap import OverlapBench

    settings = OverlapSettings(**_renamed(options))
    run_bench(lambda: OverlapBench(settings, timeline), _load_show, json_target)


@bench.command()
@list_option("--direction", name_of(DIRECTIONS), VERIFY.directions, "h2d: loads, d2h: saves.")
@list_option("--verify", name_of(("sample", "all")), VERIFY.verify, "Compared with off, each.")
@common_options
def verify(json_target: str | None, **options: Any) -> None:
    """What digests cost: copies of an engine that verifies, by those of one that does not.

    over off: time until the ticket is done, the median of the rounds' ratios; layers over off:
    until a load's last layer may be used.
    """
    from hicache_nsa.bench.verify import VerifyBench

    settings = VerifySettings(**_renamed(options, direction="directions"))
    run_bench(lambda: VerifyBench(settings), _load_show, json_target)


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
    with told_as_exit_code():
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


def _load_show() -> Show:
    from hicache_nsa.cli.bench_table import print_report

    return print_report
