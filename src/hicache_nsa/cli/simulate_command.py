"""``hicache simulate``: what a trace would find in tiers of given sizes."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import click

from hicache_nsa.cache.write_policy import WRITE_POLICIES
from hicache_nsa.cli.bench_options import json_option, list_option
from hicache_nsa.cli.bench_run import told_as_exit_code
from hicache_nsa.cli.json_output import check_target, write_json
from hicache_nsa.cli.model_options import (
    KV_DTYPES,
    MOST_PAGE_SIZE,
    config_option,
    kv_dtype_option,
    page_size_option,
)
from hicache_nsa.cli.option_types import MOST_COUNT, list_of, name_of
from hicache_nsa.cli.quantities import MOST_BYTES, bandwidth, tokens_per_second
from hicache_nsa.cli.size_command import naming
from hicache_nsa.extras import install_extra
from hicache_nsa.formats import PoolFormat, from_hf_config
from hicache_nsa.formats.models import MODELS, model_format
from hicache_nsa.simulate.case import Case, cases_of
from hicache_nsa.simulate.estimate import TtftEstimate
from hicache_nsa.simulate.simulation import Simulation
from hicache_nsa.sizes import parse_size
from hicache_nsa.sizing import Bandwidth, kept_bandwidth, tier_size
from hicache_nsa.traces import KINDS, TraceOptions, read_trace
from hicache_nsa.tree import EVICTION_POLICIES

MOST_REPEAT = 1000
MOST_SHOTS = 10_000


def one_size(text: str) -> int:
    """Bytes; 0 for no tier."""
    nbytes = parse_size(text, "size")
    if nbytes > MOST_BYTES:
        raise ValueError(f"{text!r} is more than 1 EiB")
    return nbytes


def request_number(text: str) -> int:
    """A whole number from 0 to MOST_COUNT."""
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) > MOST_COUNT:
        raise ValueError(f"{text!r} must be a whole number from 0 to {MOST_COUNT}")
    return int(text)


def format_name(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[str | None, str | None]:
    """(kind of trace, format of the pages) of what ``--format`` names, each at most once."""
    kinds = [value for value in values if value in KINDS]
    dtypes = [value for value in values if value.rpartition("/")[2] in KV_DTYPES]
    unknown = [value for value in values if value not in (*kinds, *dtypes)]
    if unknown:
        raise click.BadParameter(
            f"{unknown[0]!r} is unknown; of traces: {', '.join(KINDS)}; "
            f"of pages: {', '.join(KV_DTYPES)}",
            context,
            parameter,
        )
    if len(kinds) > 1 or len(dtypes) > 1:
        raise click.BadParameter(f"{' and '.join(values)}: give one", context, parameter)
    return next(iter(kinds), None), next(iter(dtypes), None)


@click.command()
@click.argument("trace", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@list_option("--host", one_size, ("0", "64GiB", "256GiB"), "Sizes of the host tier; 0: none.")
@list_option("--device", one_size, ("32GiB",), "Sizes of the device tier; 0: none.")
@list_option("--policy", name_of(tuple(EVICTION_POLICIES)), ("lru",), "Eviction policies.")
@list_option(
    "--write-policy", name_of(WRITE_POLICIES), ("write_through",), "When pages go to the host tier."
)
@click.option(
    "--write-threshold",
    type=click.IntRange(1, MOST_COUNT),
    default=2,
    show_default=True,
    help="Hits from which write_through_selective saves.",
)
@click.option(
    "--flush-at",
    callback=list_of(request_number),
    metavar="REQUEST,...",
    help="Flush the device once so many requests have been served.",
)
@click.option(
    "--format",
    "formats",
    multiple=True,
    callback=format_name,
    metavar="NAME",
    help=f"Of the trace: {', '.join(KINDS)} (default: told by its first line); or of the pages, "
    f"as --kv-dtype. May be given for both.",
)
@click.option(
    "--model",
    type=click.Choice(tuple(MODELS)),
    help="Bytes a token.  [default: deepseek-v3.2]",
)
@config_option
@kv_dtype_option
@page_size_option
@click.option(
    "--block-size",
    type=click.IntRange(1, MOST_PAGE_SIZE),
    help="Tokens that a block id of the trace stands for.  [default: 512]",
)
@click.option(
    "--tokenizer",
    metavar="bytes|deepseek|PATH",
    help="Of prompts that are text.  [default: deepseek where it is installed, else bytes]",
)
@click.option(
    "--shots",
    type=click.IntRange(0, MOST_SHOTS),
    default=0,
    show_default=True,
    help="Worked examples before each question: the first rows of a file of questions.",
)
@click.option("--own-shots", is_flag=True, help="Other examples for each question.")
@click.option("--limit", type=click.IntRange(1, MOST_COUNT), help="Requests to read.")
@click.option(
    "--repeat",
    type=click.IntRange(1, MOST_REPEAT),
    default=1,
    show_default=True,
    help="Serve them so many times over.",
)
@click.option(
    "--prefill-rate",
    callback=tokens_per_second,
    metavar="TOKENS/S",
    help="What the engine computes a second: estimates the time to first token.",
)
@click.option(
    "--bandwidth",
    callback=bandwidth,
    metavar="GB/S",
    help="Host to device, for that.  [default: as hicache bench link measured it]",
)
@json_option
@click.option(
    "--plot",
    "picture",
    callback=check_target,
    metavar="OUT.png",
    help="Draw hit rate against host size, one line a policy.",
)
def simulate(trace: Path, json_target: str | None, picture: str | None, **options: Any) -> None:
    """Replay a trace through the cache's tree and policies, with both tiers and without bytes.

    TRACE: JSON lines. Block ids ("hash_ids" and "input_length", as Mooncake publishes them), token
    ids ("tokens"), texts ("prompt") or questions ("question", "answer"). One request follows the
    other; hits count whole pages, a request's own last one included. Answers are not cached: the
    traces do not say what they were. All combinations of the lists are run.
    """
    if picture is not None:
        _check_picture(picture)
    with told_as_exit_code("simulate", "plot"):
        simulation = _simulation(trace, options)
        interrupted = _run(simulation, json_target, picture)
    sys.exit(1 if interrupted else 0)


def _run(simulation: Simulation, json_target: str | None, picture: str | None) -> bool:
    """Whether it was cut short. Shows, writes and draws what it found."""
    from hicache_nsa.cli.progress import progress_bar
    from hicache_nsa.cli.simulate_table import print_simulation

    report = simulation.report
    with progress_bar(simulation.steps) as step:
        simulation.run(step)
    if json_target != "-":
        print_simulation(report)
    if json_target is not None:
        write_json(json_target, report.to_json())
    if picture is not None and report.results:
        from hicache_nsa.simulate.picture import draw

        draw(report, picture)
    return report.interrupted


def _simulation(file: Path, options: dict[str, Any]) -> Simulation:
    kind, dtype = options["formats"]
    format = _format(options, dtype)
    cases = cases_of(options["policy"], options["write_policy"], options["device"], options["host"])
    _require_pages(format, cases)
    estimate = _estimate(format, cases, options)
    try:
        trace = read_trace(
            file,
            TraceOptions(
                kind=kind,
                block_size=options["block_size"],
                page_size=options["page_size"],
                tokenizer=options["tokenizer"],
                shots=options["shots"],
                own_shots=options["own_shots"],
                limit=options["limit"],
                repeat=options["repeat"],
            ),
        )
        return Simulation(
            trace,
            format,
            cases,
            flush_at=options["flush_at"],
            write_threshold=options["write_threshold"],
            estimate=estimate,
        )
    except ValueError as error:  # a broken trace, a tokenizer, options that do not fit it
        raise click.UsageError(str(error)) from error


def _format(options: dict[str, Any], named: str | None) -> PoolFormat:
    """The model's, with the kind of rows that --kv-dtype or --format gives."""
    model, config, dtype = options["model"], options["config"], options["kv_dtype"]
    if model is not None and config is not None:
        raise click.UsageError("give --model or --config, not both")
    if dtype is not None and named is not None:
        raise click.UsageError(f"give --kv-dtype {dtype} or --format {named}, not both")
    option = "--kv-dtype" if named is None else "--format"
    row = dtype if named is None else named.rpartition("/")[2]
    with naming("--config" if row is None else option):
        if config is not None:
            format = from_hf_config(config, kv_dtype=row, page_size=options["page_size"])
        else:
            format = model_format(model or "deepseek-v3.2", row, options["page_size"])
    if named is not None and "/" in named and named != format.name:
        raise click.UsageError(f"--format {named}: pages of this model are {format.name}")
    return format


def _require_pages(format: PoolFormat, cases: list[Case]) -> None:
    for case in cases:
        for tier, nbytes in (("device", case.device_bytes), ("host", case.host_bytes)):
            if nbytes:
                with naming(f"--{tier}"):
                    tier_size(format, tier, nbytes)


def _estimate(
    format: PoolFormat, cases: list[Case], options: dict[str, Any]
) -> TtftEstimate | None:
    rate, given = options["prefill_rate"], options["bandwidth"]
    if rate is None:
        if given is not None:
            raise click.UsageError("--bandwidth is for an estimate: give --prefill-rate, too")
        return None
    speed = kept_bandwidth() if given is None else Bandwidth(given, "--bandwidth")
    if not isinstance(speed, Bandwidth):
        raise click.UsageError(f"--prefill-rate needs a bandwidth: {speed.reason}")
    return TtftEstimate(speed, rate, format.token_bytes, format.num_layers)


def _check_picture(target: str) -> None:
    """Refuse a kind of picture that can't be written, before the work starts."""
    try:
        from hicache_nsa.simulate.picture import picture_formats
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        raise click.ClickException(f"--plot needs matplotlib: {install_extra('plot')}") from error
    known = picture_formats()
    if Path(target).suffix[1:].lower() not in known:
        raise click.UsageError(
            f"--plot {target}: the file's ending must be one of {', '.join(known)}"
        )
