"""Callbacks for options whose values are bytes, bytes a second or rates."""

from __future__ import annotations

import math
import re

import click

from hicache_nsa.sizes import parse_size
from hicache_nsa.sizing import FixedCost

MOST_BYTES = 1 << 60
LEAST_GBPS, MOST_GBPS = 0.001, 100_000
LEAST_TOKENS_PER_SECOND, MOST_TOKENS_PER_SECOND = 0.001, 1_000_000_000
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
    if not LEAST_GBPS * 1e9 <= rate <= MOST_GBPS * 1e9:
        raise click.BadParameter(
            f"{value!r} must be {LEAST_GBPS} to {MOST_GBPS:,} GB/s", context, parameter
        )
    return rate


def tokens_per_second(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> float | None:
    """A number above 0, as far as one can be meant."""
    least, most = LEAST_TOKENS_PER_SECOND, MOST_TOKENS_PER_SECOND
    return _number(context, parameter, value, least, most)


def fixed_cost(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> FixedCost | None:
    """Milliseconds, 0 or more."""
    number = _number(context, parameter, value, 0, MOST_MILLISECONDS)
    return None if number is None else FixedCost(number / 1e3, "--fixed-cost")


def _number(
    context: click.Context, parameter: click.Parameter, value: str | None, least: float, most: int
) -> float | None:
    if value is None:
        return None
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not least <= number <= most:
        raise click.BadParameter(
            f"{value!r} must be a number from {least} to {most:,}", context, parameter
        )
    return number
