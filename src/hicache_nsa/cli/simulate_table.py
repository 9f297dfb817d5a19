"""A simulation for people: a row a case, and what the numbers stand on."""

from __future__ import annotations

from collections.abc import Callable

from rich.box import SIMPLE_HEAVY
from rich.console import Console
from rich.table import Table

from hicache_nsa.simulate.estimate import TtftEstimate
from hicache_nsa.simulate.report import Result, SimulationReport
from hicache_nsa.sizes import format_size

PLAIN_WIDTH = 200  # where stdout is not a terminal
Cell = Callable[[Result], str]


def print_simulation(report: SimulationReport) -> None:
    """Print ``report`` to stdout. A terminal that is too narrow breaks lines, and loses nothing."""
    table = _table(report)
    console, wide = (Console(highlight=False, markup=False, width=n) for n in (None, PLAIN_WIDTH))
    if not console.is_terminal:
        console = wide
    else:
        console.width = max(console.width, wide.measure(table).maximum)
    if report.results:
        console.print(table)
    for line in _conclusions(report):
        console.print(line, soft_wrap=True)


def _table(report: SimulationReport) -> Table:
    table = Table(box=SIMPLE_HEAVY, pad_edge=False, collapse_padding=True)
    cells = dict(NAMES if _varied(report) else {})
    cells |= FIGURES
    if any(result.requests < len(report.trace.requests) for result in report.results):
        cells |= REQUESTS
    if report.estimate is not None:
        cells |= TIMES
    for heading in cells:
        table.add_column(heading, justify="left" if heading in NAMES else "right", no_wrap=True)
    for result in report.results:
        table.add_row(*(cell(result) for cell in cells.values()))
    return table


def _varied(report: SimulationReport) -> bool:
    """Whether policies differ; else a line below the table names them."""
    return len({(one.case.policy, one.case.write_policy) for one in report.results}) > 1


def _size(nbytes: int) -> str:
    return format_size(nbytes) if nbytes else "none"


def _share(result: Result, tokens: int | None) -> str:
    rate = result.rate(tokens)
    return "-" if rate is None else f"{rate:.1%}"


def _time(result: Result, figure: str) -> str:
    return "-" if result.ttft_ms is None else f"{result.ttft_ms[figure]:,.0f} ms"


NAMES: dict[str, Cell] = {
    "policy": lambda one: one.case.policy,
    "write policy": lambda one: one.case.write_policy,
}
FIGURES: dict[str, Cell] = {
    "device": lambda one: _size(one.case.device_bytes),
    "host": lambda one: _size(one.case.host_bytes),
    "device\nhit": lambda one: f"{one.device_hit_tokens:,}",
    "host\nhit": lambda one: f"{one.host_hit_tokens:,}",
    "device\nrate": lambda one: _share(one, one.device_hit_tokens),
    "host\nrate": lambda one: _share(one, one.host_hit_tokens),
    "both": lambda one: _share(one, one.hit_tokens),
    "bound": lambda one: _share(one, one.bound_hit_tokens),
}
REQUESTS: dict[str, Cell] = {"requests": lambda one: f"{one.requests:,}"}
TIMES: dict[str, Cell] = {
    "TTFT p50\nestimate": lambda one: _time(one, "p50"),
    "mean\nestimate": lambda one: _time(one, "mean"),
}


def _conclusions(report: SimulationReport) -> list[str]:
    trace, format = report.trace, report.format
    held = format_size(report.distinct_pages * format.page_bytes)
    lines = [
        f"{trace.source}: {len(trace.requests):,} requests, {trace.prompt_tokens:,} prompt tokens, "
        f"{report.distinct_pages:,} distinct pages of {format.page_size} tokens ({held} as "
        f"{format.name}, {format.token_bytes:,} B a token).",
        "Hits are tokens of whole pages; bound: what no policy exceeds with as much room (Belady).",
    ]
    if report.results and not _varied(report):
        case = report.results[0].case
        lines.insert(1, f"Policy {case.policy}, write policy {case.write_policy}.")
    if report.flush_at:
        numbers = ", ".join(f"{number:,}" for number in report.flush_at)
        lines.append(f"The device was flushed after requests: {numbers}.")
    lent = max((result.tiers.lent for result in report.results), default=0)
    if lent:
        lines.append(
            f"The longest prompt has {trace.largest_pages:,} pages; a smaller device tier is lent "
            f"what a running request needs beyond it, {lent:,} pages at most."
        )
    if report.estimate is not None:
        lines.append(_stated(report.estimate))
    if report.interrupted:
        lines.append("Interrupted: the figures cover what was done until then.")
    return lines


def _stated(estimate: TtftEstimate) -> str:
    return (
        f"TTFT is an estimate from {estimate.bandwidth.bytes_per_second / 1e9:,.1f} GB/s "
        f"({estimate.bandwidth.source}) and {estimate.prefill_rate:,.0f} tokens/s of prefill, "
        f"without queueing: the longer one of load and compute and a layer of the other."
    )
