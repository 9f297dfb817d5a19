"""A simulation for people: a row a case, and what the numbers stand on."""

from __future__ import annotations

from rich.box import SIMPLE_HEAVY
from rich.console import Console
from rich.table import Table

from hicache_nsa.simulate.estimate import TtftEstimate
from hicache_nsa.simulate.report import Result, SimulationReport
from hicache_nsa.sizes import format_size

PLAIN_WIDTH = 200  # where stdout is not a terminal
HEADINGS = (
    "device", "host", "requests", "device\nhit", "host\nhit", "device\nrate", "host\nrate",
    "both", "bound",
)  # fmt: skip


def print_simulation(report: SimulationReport) -> None:
    """Print ``report`` to stdout."""
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console = Console(highlight=False, markup=False, width=PLAIN_WIDTH)
    if report.results:
        console.print(_table(report))
    for line in _conclusions(report):
        console.print(line, soft_wrap=True)


def _table(report: SimulationReport) -> Table:
    table = Table(box=SIMPLE_HEAVY, pad_edge=False, collapse_padding=True)
    for heading in ("policy", "write policy"):
        table.add_column(heading, no_wrap=True)
    for heading in HEADINGS:
        table.add_column(heading, justify="right", no_wrap=True)
    timed = report.estimate is not None
    for heading in ("TTFT p50\nestimate", "mean") if timed else ():
        table.add_column(heading, justify="right", no_wrap=True)
    for result in report.results:
        table.add_row(*_cells(result), *(_times(result) if timed else ()))
    return table


def _cells(result: Result) -> list[str]:
    case = result.case
    return [
        case.policy,
        case.write_policy,
        _size(case.device_bytes),
        _size(case.host_bytes),
        f"{result.requests:,}",
        f"{result.device_hit_tokens:,}",
        f"{result.host_hit_tokens:,}",
        _share(result, result.device_hit_tokens),
        _share(result, result.host_hit_tokens),
        _share(result, result.hit_tokens),
        _share(result, result.bound_hit_tokens),
    ]


def _size(nbytes: int) -> str:
    return format_size(nbytes) if nbytes else "none"


def _share(result: Result, tokens: int | None) -> str:
    rate = result.rate(tokens)
    return "-" if rate is None else f"{rate:.1%}"


def _times(result: Result) -> tuple[str, str]:
    if result.ttft_ms is None:
        return "-", "-"
    return f"{result.ttft_ms['p50']:,.0f} ms", f"{result.ttft_ms['mean']:,.0f} ms"


def _conclusions(report: SimulationReport) -> list[str]:
    trace, format = report.trace, report.format
    held = format_size(report.distinct_pages * format.page_bytes)
    lines = [
        f"{trace.source}: {len(trace.requests):,} requests, {trace.prompt_tokens:,} prompt tokens, "
        f"{report.distinct_pages:,} distinct pages of {format.page_size} tokens ({held} as "
        f"{format.name}, {format.token_bytes:,} B a token).",
        "Hits are tokens of whole pages; bound: what no policy exceeds with as much room (Belady).",
    ]
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
