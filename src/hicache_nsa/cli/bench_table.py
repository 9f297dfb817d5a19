"""A bench's report for people: a table, the peak, and what did not hold."""

from __future__ import annotations

from collections.abc import Callable

from rich.box import SIMPLE_HEAVY
from rich.table import Table

from hicache_nsa.bench.report import BenchReport, Row
from hicache_nsa.cli.wide_console import wide_console

Cell = Callable[[Row], str]


def print_report(report: BenchReport) -> None:
    """Print the cases to stdout, one a row, then what follows from them."""
    console = wide_console()
    if report.cases:
        console.print(_table(report))
    for line in _conclusions(report):
        console.print(line, soft_wrap=True)


def _table(report: BenchReport) -> Table:
    columns = [
        (heading, cell)
        for heading, (key, cell) in COLUMNS.items()
        if any(case.get(key) not in (None, []) for case in report.cases)
    ]
    table = Table(box=SIMPLE_HEAVY, pad_edge=False, collapse_padding=True)
    table.add_column("case", overflow="fold")
    for heading, _ in columns:
        table.add_column(heading, justify="right", no_wrap=True)
    for case in report.cases:
        table.add_row(str(case["id"]), *(cell(case) for _, cell in columns))
    return table


def _number(key: str, form: str) -> tuple[str, Cell]:
    """A cell with one number; "-" where there is none."""
    return key, lambda case: "-" if case.get(key) is None else format(case[key], form)


def _two(key: str, worst: str) -> tuple[str, Cell]:
    return key, lambda case: f"{case[key]:,.0f} ({case[worst]:,.0f})"


def _names(key: str) -> tuple[str, Cell]:
    """Names; there are none where nothing took a way of a GPU."""
    return key, lambda case: "+".join(case[key]) or "-"


def _verdict(case: Row) -> str:
    return "yes" if case["verified"] else "NO"


# Heading: (key that has to be there, cell). Those that no case has are left out.
COLUMNS: dict[str, tuple[str, Cell]] = {
    "GB/s": _number("gbps", ".2f"),
    "share": _number("share_of_peak", ".3f"),
    "queued\nGB/s": _number("device_gbps", ".2f"),
    "queued\nshare": _number("device_share_of_peak", ".3f"),
    "off\nGB/s": _number("off_gbps", ".2f"),
    "over\noff": _number("over_off", ".3f"),
    "layers\nover off": _number("landed_over_off", ".3f"),
    "over": _number("over", ".3f"),
    "queued\nover": _number("device_over", ".3f"),
    "submit us\n(worst)": _two("submit_us", "submit_us_worst"),
    "wait us": _number("wait_layers_us", ",.0f"),
    "way": _names("way"),
    "gemm\nslower": _number("gemm_slowdown", "+.2%"),
    "by plain\ncopy": _number("gemm_slowdown_contiguous", "+.2%"),
    "alone\ndrifts": _number("gemm_alone_drift", ".2%"),
    "beside gemm\nGB/s": _number("gemm_gbps", ".2f"),
    "verified": ("verified", _verdict),
}


def _conclusions(report: BenchReport) -> list[str]:
    peaks = [
        f"{direction} {report.peak[key]:.2f} GB/s"
        for direction, key in (("h2d", "h2d_gbps"), ("d2h", "d2h_gbps"))
        if report.peak[key] is not None
    ]
    lines = [f"One contiguous copy: {', '.join(peaks)}."] if peaks else []
    wrong = [str(case["id"]) for case in report.cases if not case["verified"]]
    if wrong:
        lines.append(
            f"BYTES DIFFER in {len(wrong)} of {len(report.cases)} cases: {', '.join(wrong)}"
        )
    if report.error is not None:
        lines.append(f"FAILED, the figures cover what was done until then: {report.error}")
    if report.interrupted:
        lines.append("Interrupted: the figures cover what was done until then.")
    return lines
