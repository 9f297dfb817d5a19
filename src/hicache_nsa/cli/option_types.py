"""Callbacks for options whose values are lists, devices, or yes, no and as the library decides."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import click

Callback = Callable[[click.Context, click.Parameter, Any], Any]

MOST_COUNT = 10_000_000  # of pages: more than any machine has memory for
MOST_RATIO = 1_000_000
AUTO_YES_NO = {"auto": None, "yes": True, "no": False}


def list_of(one: Callable[[str], Any]) -> Callback:
    """Values separated by commas, each converted by ``one``, which raises ValueError for what it
    does not take. A tuple; equal values are taken once. None: an empty one.
    """

    def convert(context: click.Context, parameter: click.Parameter, value: str | None) -> Any:
        try:
            found = [] if value is None else [one(part.strip()) for part in value.split(",")]
        except ValueError as error:
            raise click.BadParameter(str(error), context, parameter) from error
        return tuple(dict.fromkeys(found))

    return convert


def count(text: str) -> int:
    """A whole number from 1 to MOST_COUNT."""
    if not re.fullmatch(r"[0-9]+", text) or int(text) < 1:
        raise ValueError(f"{text!r} must be a whole number of 1 or more")
    if int(text) > MOST_COUNT:
        raise ValueError(f"{text!r} must be at most {MOST_COUNT}")
    return int(text)


def ratio(text: str) -> float:
    """A number above 0 and below MOST_RATIO."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < MOST_RATIO:
        raise ValueError(f"{text!r} must be a number above 0 and below {MOST_RATIO:,}")
    return value


def name_of(known: Sequence[str]) -> Callable[[str], str]:
    """One of ``known``."""

    def one(text: str) -> str:
        if text not in known:
            raise ValueError(f"{text!r} is unknown; known: {', '.join(known)}")
        return text

    return one


def device(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """``cpu``, ``cuda`` or ``cuda:N``; whether it is there is asked when it is opened."""
    if not re.fullmatch(r"cpu|cuda(:[0-9]{1,4})?", value):
        raise click.BadParameter(f"{value!r} is unknown; known: cpu, cuda, cuda:N (N up to 9999)")
    return value


def gpu(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """``cuda`` or ``cuda:N``; whether it is there is asked when it is opened."""
    if value == "cpu":
        raise click.BadParameter("a cpu has no link; known: cuda, cuda:N")
    if not value.startswith("cuda"):
        raise click.BadParameter(f"{value!r} is unknown; known: cuda, cuda:N")
    return device(context, parameter, value)


def decided(context: click.Context, parameter: click.Parameter, value: str) -> bool | None:
    """An option with the choices of AUTO_YES_NO."""
    return AUTO_YES_NO[value]
