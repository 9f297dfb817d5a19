"""The link curve for people: a table, where it is kept, and from when it is."""

from __future__ import annotations

from rich.box import SIMPLE_HEAVY
from rich.console import Console
from rich.table import Table

from hicache_nsa.bench.link import LinkReport
from hicache_nsa.link_curve import ago


def print_link(report: LinkReport) -> None:
    """Print ``report`` to stdout."""
    console = Console(highlight=False, markup=False)
    table = Table(box=SIMPLE_HEAVY, pad_edge=False, collapse_padding=True)
    for heading in ("direction", "operation"):
        table.add_column(heading)
    for heading in ("bytes", "us", "GB/s"):
        table.add_column(heading, justify="right")
    last: tuple[str, str] | None = None
    for case in report.cases:
        group = case["direction"], case["operation"]
        names = group if group != last else ("", "")
        table.add_row(
            *names,
            f"{case['bytes']:,}",
            f"{1e6 * case['seconds_median']:.2f}",
            f"{case['gbps']:.1f}",
        )
        last = group
    console.print(table)
    for line in _conclusions(report):
        console.print(line, soft_wrap=True)


def _conclusions(report: LinkReport) -> list[str]:
    lines = [f"{report.device}: {report.identity}."]
    if report.age_seconds is None:
        lines.append("Measured now, not kept.")
    elif report.measured_now:
        lines.append(f"Measured now, kept in {report.file}")
    else:
        lines.append(
            f"Measured {ago(report.age_seconds)} ago, kept in {report.file} "
            "(--again measures it anew)"
        )
    return lines + [f"Warning: {text}." for text in report.warnings]
