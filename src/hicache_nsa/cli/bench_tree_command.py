"""``hicache bench tree``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from hicache_nsa.bench.tree.settings import PEERS, TreeSettings
from hicache_nsa.cli.bench_options import json_option
from hicache_nsa.cli.bench_run import Show, run_bench

DEFAULTS = TreeSettings()
MOST = 10_000_000


def _sized(name: str, help: str, least: int = 1) -> Callable[[Any], Any]:
    """An option with a whole number, by default that of the settings."""
    return click.option(
        f"--{name}",
        type=click.IntRange(least, MOST),
        default=getattr(DEFAULTS, name.replace("-", "_")),
        show_default=True,
        help=help,
    )


def _file(name: str, metavar: str, help: str) -> Callable[[Any], Any]:
    path = click.Path(exists=True, dir_okay=False, path_type=Path)
    return click.option(f"--{name}", type=path, metavar=metavar, help=help)


@click.command()
@click.option(
    "--peer",
    "peers",
    type=click.Choice(list(PEERS)),
    multiple=True,
    help="Also an engine's trees, if it is installed.",
)
@_file(
    "trace",
    "TRACE.jsonl",
    "Conversations, in Mooncake's format. Without one the cases on them are left out.",
)
@_sized("requests", "Of the trace, the first ones.")
@_file(
    "prompts",
    "FILE.jsonl",
    "Questions of the few-shot prompts, a JSON object a line.  [default: generated ones]",
)
@_sized("shots", "Worked examples before each question.", least=0)
@_sized("questions", "Few-shot prompts.")
@click.option(
    "--tokenizer",
    metavar="bytes|deepseek|PATH",
    help="Of the few-shot prompts.  [default: deepseek where it is installed, else bytes]",
)
@_sized("sessions", "Agentic sessions.")
@_sized("turns", "Of each session: a node a turn.")
@_sized("session-tokens", "Of a session at its end.", least=128)
@_sized("long-tokens", "Of the long prompt.", least=64)
@_sized("leaves", "Leaves of one page each, for eviction, memory and pauses.", least=2)
@_sized("evict", "Of them, in one call.")
@_sized("rounds", "Each builds its tree anew; figures are medians.")
@click.option("--filter", "pattern", metavar="GLOB", help='Only cases whose id matches: "match/*".')
@json_option
def tree(json_target: str | None, peers: tuple[str, ...], **options: Any) -> None:
    """Microseconds of matches, inserts and evictions, and the memory of the tree.

    On the CPU, with pages of 64 tokens and 16 bytes. Each match is compared with what it has to
    find, and the tree is checked at the end of each case. ratio: ours by the peer's.
    """
    from hicache_nsa.bench.tree.bench import TreeBench

    settings = TreeSettings(peers=tuple(dict.fromkeys(peers)), **options)
    run_bench(lambda: TreeBench(settings), _load_show, json_target)


def _load_show() -> Show:
    from hicache_nsa.cli.tree_table import print_tree

    return print_tree
