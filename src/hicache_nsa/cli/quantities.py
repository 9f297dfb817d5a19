"""Callbacks for options whose values are bytes, bytes a second or rates."""

from __future__ import annotations

import math
import re

import click

from hicache_nsa.sizes import parse_size
from hicache_nsa.sizing import FixedCost

MOST_BYTES = 1 << 60
MOST_GBPS = 100_000
MOST_TOKENS_PER_SECOND = 1_000_000_000
MOST_MILLISECONDS = 60_000


def size_in_bytes(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> int | None:
    """Bytes, as ``50GiB``."""
    if value is None:
        return None
    try:
        nbytes = parse_size(value, "size")
    except ValueError as error:
        raise click.BadParameter(str(error), context, parameter) from error
    if nbytes > MOST_BYTES:
        raise click.BadParameter(f"{value!r} is more than 1 EiB", context, parameter)
    return nbytes


def bandwidth(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> float | None:
    """Bytes a second: a number is GB/s, else a size, as ``50GiB/s``."""
    if value is None:
        return None
    text = value.strip()
    try:
        if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
            rate = float(text) * 1e9
        else:
            rate = float(parse_size(text.removesuffix("/s"), "bandwidth"))
    except ValueError as error:
        raise click.BadParameter(
            f"{value!r} is no bandwidth: give GB/s (55) or a size a second (50GiB/s)",
            context,
            parameter,
        ) from error
    if not 0 < rate <= MOST_GBPS * 1e9:
        raise click.BadParameter(
            f"{value!r} must be above 0 and at most {MOST_GBPS:,} GB/s", context, parameter
        )
    return rate


def tokens_per_second(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> float | None:
    """A number above 0."""
    return _number(context, parameter, value, MOST_TOKENS_PER_SECOND, zero=False)


def fixed_cost(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> FixedCost | None:
    """Milliseconds, 0 or more."""
    number = _number(context, parameter, value, MOST_MILLISECONDS, zero=True)
    return None if number is None else FixedCost(number / 1e3, "--fixed-cost")


def _number(
    context: click.Context, parameter: click.Parameter, value: str | None, most: int, zero: bool
) -> float | None:
    if value is None:
        return None
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not (0 < number <= most or (zero and number == 0)):
        least = "0 or more" if zero else "above 0"
        raise click.BadParameter(
            f"{value!r} must be a number, {least} and at most {most:,}", context, parameter
        )
    return number
