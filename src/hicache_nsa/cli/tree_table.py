"""The tree's figures for people: a row a case and tree, each with the numbers that it has."""

from __future__ import annotations

from rich.box import SIMPLE_HEAVY
from rich.table import Table

from hicache_nsa.bench.report import Row
from hicache_nsa.bench.tree.report import TreeReport
from hicache_nsa.bench.tree.settings import OURS
from hicache_nsa.cli.wide_console import wide_console

# Heading: (key, format). Those that no case has are left out.
COLUMNS = {
    "p50 us": ("p50_us", ",.1f"),
    "p99 us": ("p99_us", ",.1f"),
    "longest us": ("longest_us", ",.0f"),
    "p99/p50": ("p99_by_p50", ",.1f"),
    "us a page": ("us_per_page", ",.2f"),
    "seconds": ("seconds", ",.3f"),
    "bytes\na leaf": ("bytes_per_leaf", ",.0f"),
    "objects\na leaf": ("gc_objects_per_leaf", ",.2f"),
    "bytes\na token": ("bytes_per_token", ",.1f"),
    "insert\np50 us": ("insert_p50_us", ",.1f"),
    "insert\nlongest us": ("insert_longest_us", ",.0f"),
    "ratio": ("ratio", ",.3g"),
}


def print_tree(report: TreeReport) -> None:
    """Print ``report`` to stdout."""
    console = wide_console()
    if report.cases:
        console.print(_table(report))
    for line in _conclusions(report):
        console.print(line, soft_wrap=True)


def _table(report: TreeReport) -> Table:
    table = Table(box=SIMPLE_HEAVY, pad_edge=False, collapse_padding=True)
    columns = {
        heading: column
        for heading, column in COLUMNS.items()
        if any(case.get(column[0]) is not None for case in report.cases)
    }
    for heading in ("case", "tree"):
        table.add_column(heading, overflow="fold")
    for heading in columns:
        table.add_column(heading, justify="right", no_wrap=True)
    for case in report.cases:
        name = case["case"] if case["peer"] is None else ""
        cells = [_cell(case, *column) for column in columns.values()]
        table.add_row(name, case["peer"] or OURS, *cells)
    return table


def _cell(case: Row, key: str, form: str) -> str:
    return "-" if case.get(key) is None else format(case[key], form)


def _conclusions(report: TreeReport) -> list[str]:
    lines = [f"Left out: {id}: {why}." for id, why in report.left_out.items()]
    if any(case["peer"] for case in report.cases):
        figures = dict.fromkeys(str(case["figure"]) for case in report.cases)
        lines.append(f"ratio: ours by the peer's, of the first there is: {', '.join(figures)}.")
    if report.error is not None:
        lines.append(f"FAILED, the figures cover what was done until then: {report.error}")
    if report.interrupted:
        lines.append("Interrupted: the figures cover what was done until then.")
    return lines
