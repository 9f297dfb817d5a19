"""What a server of the scenarios tells about a request."""

from __future__ import annotations

from dataclasses import dataclass


class WrongBytes(AssertionError):
    """A page that came back isn't what was stored."""


@dataclass(frozen=True)
class Served:
    """Pages of one request by where they came from. aborted: its load failed."""

    device: int
    host: int
    computed: int
    aborted: bool = False
