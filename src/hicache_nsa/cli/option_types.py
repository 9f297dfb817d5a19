"""Callbacks for options whose values are lists, devices, or yes, no and as the library decides."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import click

Callback = Callable[[click.Context, click.Parameter, Any], Any]

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
    """A whole number of 1 or more."""
    if not re.fullmatch(r"[0-9]{1,12}", text) or int(text) < 1:
        raise ValueError(f"{text!r} must be a whole number of 1 or more")
    return int(text)


def ratio(text: str) -> float:
    """A number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise ValueError(f"{text!r} must be a number above 0")
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
        raise click.BadParameter(f"{value!r} is unknown; known: cpu, cuda, cuda:N")
    return value


def gpu(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """``cuda`` or ``cuda:N``; whether it is there is asked when it is opened."""
    if device(context, parameter, value) == "cpu":
        raise click.BadParameter("a cpu has no link; known: cuda, cuda:N")
    return value


def decided(context: click.Context, parameter: click.Parameter, value: str) -> bool | None:
    """An option with the choices of AUTO_YES_NO."""
    return AUTO_YES_NO[value]
