"""``hicache size``: what a model's KV takes, how much fits, when bringing it back pays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from hicache_nsa.cli.bench_options import json_option
from hicache_nsa.cli.json_output import write_json
from hicache_nsa.cli.model_options import config_option, kv_dtype_option, page_size_option
from hicache_nsa.cli.option_types import count, list_of
from hicache_nsa.cli.quantities import bandwidth, fixed_cost, size_in_bytes, tokens_per_second
from hicache_nsa.cli.size_table import report_text, rows_text
from hicache_nsa.formats import PoolFormat, from_hf_config
from hicache_nsa.formats.models import MODELS, model_format
from hicache_nsa.sizing import (
    Bandwidth,
    FixedCost,
    ModelRow,
    SizeReport,
    TierSize,
    break_even,
    kept_bandwidth,
    load_time,
    tier_size,
)

TOKENS = (1024, 8192, 32_768, 131_072)
OF_ONE_MODEL = ("kv_dtype", "tokens", "bandwidth", "prefill_rate", "fixed_cost")


@click.command()
@click.option("--model", type=click.Choice(tuple(MODELS)), help="A known model.")
@config_option
@kv_dtype_option
@page_size_option
@click.option("--host-size", callback=size_in_bytes, metavar="SIZE", help='Host tier, as "50GiB".')
@click.option("--device-size", callback=size_in_bytes, metavar="SIZE", help="Device tier.")
@click.option(
    "--tokens",
    callback=list_of(count),
    metavar="LIST",
    help="Lengths of prefixes to load.  [default: " + ",".join(map(str, TOKENS)) + "]",
)
@click.option(
    "--bandwidth",
    callback=bandwidth,
    metavar="GB/S",
    help="Host to device.  [default: as hicache bench link measured it, else unknown]",
)
@click.option(
    "--prefill-rate",
    callback=tokens_per_second,
    metavar="TOKENS/S",
    help="What the engine computes a second: for the break-even length.",
)
@click.option(
    "--fixed-cost",
    callback=fixed_cost,
    metavar="MS",
    help="Of a load, whatever its length.  [default: 0.25, from docs/benchmarks.md]",
)
@json_option
def size(
    model: str | None,
    config: Path | None,
    json_target: str | None,
    **options: Any,
) -> None:
    """Bytes a token, what fits into a tier, and from which length on loading beats recomputing.

    Without --model and --config: a table of the known models. Sizes are those of the whole model;
    nothing is measured here.
    """
    if model is not None and config is not None:
        raise click.UsageError("give --model or --config, not both")
    if model is None and config is None:
        _refuse_options_of_one_model(options)
        rows = _rows(options)
        shown = rows_text(rows)
        content: dict[str, object] = {"models": [row.to_json() for row in rows]}
    else:
        report = _report(model, config, options)
        shown, content = report_text(report), report.to_json()
    if json_target != "-":
        click.echo("\n".join(shown))
    if json_target is not None:
        write_json(json_target, content)


def _refuse_options_of_one_model(options: dict[str, Any]) -> None:
    for name in OF_ONE_MODEL:
        if options[name] not in (None, ()):
            option = "--" + name.replace("_", "-")
            raise click.UsageError(f"{option} is of one model: give --model or --config, too")


def _rows(options: dict[str, Any]) -> list[ModelRow]:
    rows = []
    for name, model in MODELS.items():
        format = model_format(name, page_size=options["page_size"])
        rows.append(ModelRow(name, model.source, format, _tiers(format, options, f" of {name}")))
    return rows


def _report(model: str | None, config: Path | None, options: dict[str, Any]) -> SizeReport:
    format = _format(model, config, options["kv_dtype"], options["page_size"])
    given, prefill_rate = options["bandwidth"], options["prefill_rate"]
    rate = kept_bandwidth() if given is None else Bandwidth(given, "--bandwidth")
    speed = rate.bytes_per_second if isinstance(rate, Bandwidth) else None
    fixed = options["fixed_cost"] or FixedCost()
    lengths = options["tokens"] or tuple(n for n in TOKENS if n >= format.page_size)
    with naming("--tokens"):
        loads = tuple(load_time(format, n, speed, prefill_rate, fixed.seconds) for n in lengths)
    even = None
    if speed is not None and prefill_rate is not None:
        even = break_even(format, speed, prefill_rate, fixed.seconds)
    return SizeReport(
        model=model or str(config),
        source="its config.json" if model is None else MODELS[model].source,
        format=format,
        tiers=_tiers(format, options),
        bandwidth=rate,
        loads=loads,
        break_even=even,
        fixed=fixed,
    )


def _tiers(format: PoolFormat, options: dict[str, Any], of: str = "") -> tuple[TierSize, ...]:
    tiers = []
    for tier in ("device", "host"):
        nbytes = options[f"{tier}_size"]
        if nbytes is not None:
            with naming(f"--{tier}-size{of}"):
                tiers.append(tier_size(format, tier, nbytes))
    return tuple(tiers)


def _format(
    model: str | None, config: Path | None, kv_dtype: str | None, page_size: int
) -> PoolFormat:
    def made(dtype: str | None) -> PoolFormat:
        if model is not None:
            return model_format(model, dtype, page_size)
        return from_hf_config(config, kv_dtype=dtype, page_size=page_size)

    with naming("--config"):
        default = made(None)
    with naming("--kv-dtype"):
        return default if kv_dtype is None else made(kv_dtype)


@contextmanager
def naming(option: str) -> Iterator[None]:
    """What the library refuses is bad usage of ``option``."""
    try:
        yield
    except (ValueError, TypeError, ArithmeticError, RecursionError) as error:
        raise click.UsageError(f"{option}: {error}") from error
