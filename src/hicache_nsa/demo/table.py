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


def print_lines(lines: Sequence[str]) -> None:
    """Print to stdout, unwrapped."""
    console = _console()
    for line in lines:
        console.print(line)


def print_result(result: DemoResult) -> None:
    """Print the table and what follows from it to stdout."""
    console = _console()
    if result.runs:
        table = _row_a_run(result.runs)
        unbounded = console.options.update(width=10 * PLAIN_WIDTH)
        fits = console.measure(table, options=unbounded).maximum <= console.width
        console.print(table if fits else _column_a_run(result.runs), soft_wrap=False)
    print_lines(_conclusions(result))


def _console() -> Console:
    """Stdout, with lines that are not part of a table left unwrapped."""
    console = Console(highlight=False, soft_wrap=True, markup=False)
    if not console.is_terminal:
        console = Console(highlight=False, soft_wrap=True, markup=False, width=PLAIN_WIDTH)
    return console


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
    if result.pages_compared and not result.mismatches:
        lines.append(
            f"{result.pages_compared:,} pages came back from host memory; all "
            f"{result.digests_compared:,} digests, one a page, layer and buffer, are as computed."
        )
    if not result.pools_hold_all and not result.interrupted and not result.pages_compared:
        lines.append(
            "No page came back from host memory: the pools are smaller than the prompts need, and "
            "each host copy gave way to a newer one before its prompt came again."
        )
    lines += result.failures
    if result.interrupted:
        lines.append("Interrupted: the figures cover what was done until then.")
    return lines


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f} ms"
