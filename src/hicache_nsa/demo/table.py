"""The result for people: one table and what follows from it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAVY
from rich.console import Console
from rich.table import Table

from hicache_nsa.demo.results import DemoResult, Run

COLUMNS = (
    *("prompt\ntokens", "device\nhit", "host\nhit", "computed", "device\nrate", "host\nrate"),
    *("seconds", "tokens/s", "TTFT\np50", "same\noutput"),
)
PLAIN_WIDTH = 120  # where stdout is not a terminal


def print_result(result: DemoResult) -> None:
    """Print to stdout; lines that are not part of the table are left unwrapped."""
    console = Console(highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console = Console(highlight=False, soft_wrap=True, width=PLAIN_WIDTH)
    console.print(result.sizing)
    if result.runs:
        table = _row_a_run(result.runs)
        unbounded = console.options.update(width=10 * PLAIN_WIDTH)
        fits = console.measure(table, options=unbounded).maximum <= console.width
        console.print(table if fits else _column_a_run(result.runs), soft_wrap=False)
    for line in _conclusions(result):
        console.print(line)


def _row_a_run(runs: Sequence[Run]) -> Table:
    table = Table(box=SIMPLE_HEAVY, pad_edge=False, collapse_padding=True)
    table.add_column("run", no_wrap=True)
    for heading in COLUMNS:
        table.add_column(heading, justify="right", no_wrap=True)
    for run in runs:
        table.add_row(run.name, *_cells(run, runs[0]))
    return table


def _column_a_run(runs: Sequence[Run]) -> Table:
    """The same for narrow terminals."""
    table = Table(box=SIMPLE_HEAVY, pad_edge=False)
    table.add_column("run")
    for run in runs:
        table.add_column(run.name, justify="right", no_wrap=True)
    columns = [_cells(run, runs[0]) for run in runs]
    for heading, *row in zip(COLUMNS, *columns, strict=True):
        table.add_row(heading.replace("\n", " "), *row)
    return table


def _cells(run: Run, cold: Run) -> tuple[str, ...]:
    total = max(run.prompt_tokens, 1)
    done = run.prompt_tokens + run.generated_tokens
    return (
        f"{run.prompt_tokens:,}",
        f"{run.device_hit_tokens:,}",
        f"{run.host_hit_tokens:,}",
        f"{run.computed_tokens:,}",
        f"{run.device_hit_tokens / total:.1%}",
        f"{run.host_hit_tokens / total:.1%}",
        f"{run.seconds:.2f}",
        f"{done / run.seconds:,.0f}" if run.seconds else "-",
        _milliseconds(run.ttft_ms_p50),
        "-" if run is cold else "yes" if run.same_outputs(cold) else "NO",
    )


def _conclusions(result: DemoResult) -> list[str]:
    lines = []
    if result.runs and result.runs[-1].answers:
        firsts = [f"{run.name} {_milliseconds(run.ttft_ms_first)}" for run in result.runs]
        lines.append(f"First question's time to first token: {', '.join(firsts)}.")
    if result.mismatches:
        found = result.mismatches[0]
        lines.append(
            f"BYTES DIFFER: {len(result.mismatches):,} of {result.digests_compared:,} digests of "
            f"pages that came back; first: buffer {found.buffer}, layer {found.layer}, "
            f"page at token {found.first_token}."
        )
    elif result.pages_compared:
        lines.append(
            f"{result.pages_compared:,} pages came back from host memory; all "
            f"{result.digests_compared:,} digests, one a page, layer and buffer, are as computed."
        )
    elif not result.interrupted:
        lines.append("No page came back from host memory.")
    if not result.outputs_identical:
        lines.append("OUTPUTS DIFFER from the cold run's.")
    if result.interrupted:
        lines.append("Interrupted: the figures cover what was done until then.")
    return lines


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f} ms"
