"""The figures of host memory for people."""

from __future__ import annotations

from rich.box import SIMPLE_HEAVY
from rich.table import Table

from hicache_nsa.bench.pin.report import PinReport
from hicache_nsa.bench.report import Row
from hicache_nsa.cli.wide_console import wide_console
from hicache_nsa.sizes import format_size

HEADINGS = ("size", "seconds", "s/GiB", "release\ns/GiB", "verified")


def print_pin(report: PinReport) -> None:
    """Print ``report`` to stdout."""
    console = wide_console()
    table = Table(box=SIMPLE_HEAVY, pad_edge=False, collapse_padding=True)
    table.add_column("case", no_wrap=True)
    for heading in HEADINGS:
        table.add_column(heading, justify="right")
    for case in report.cases:
        table.add_row(
            case["id"],
            format_size(case["bytes"]),
            f"{case['seconds_median']:.2f}",
            f"{case['seconds_per_gib']:.4f}",
            f"{case['release_seconds_per_gib']:.4f}",
            "yes" if case["verified"] else "NO",
        )
    if report.cases:
        console.print(table)
    for line in _conclusions(report):
        console.print(line, soft_wrap=True)


def _conclusions(report: PinReport) -> list[str]:
    lines = [f"Left out: {id}: {why}." for id, why in report.left_out.items()]
    if report.ratio is not None:
        lines.append(f"cudaHostAlloc takes {report.ratio:.1f} times as long a GiB.")
    for case in report.cases:
        if "first_ready_seconds" in case:
            lines += _background(case)
    if report.error is not None:
        lines.append(f"FAILED, the figures cover what was done until then: {report.error}")
    if report.interrupted:
        lines.append("Interrupted: the figures cover what was done until then.")
    return lines


def _background(case: Row) -> list[str]:
    lines = [
        f"The cache served after {case['first_ready_seconds']:.2f} s, with "
        f"{format_size(case['first_ready_bytes'])} of {format_size(case['bytes'])} ready."
    ]
    for name, who in (("heartbeat", "that beats every ms"), ("launch", "that launches on the GPU")):
        gaps = [
            f"{case[f'{phase}_{name}_longest_ms']:.1f} {when}"
            for phase, when in (
                ("idle", "with nothing beside it"),
                ("first", "until the cache served"),
                ("background", "in the background"),
                ("release", "while it closed"),
            )
            if f"{phase}_{name}_longest_ms" in case
        ]
        if gaps:
            lines.append(f"Longest gap of a thread {who}, ms: {', '.join(gaps)}.")
    return lines
