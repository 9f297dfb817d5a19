"""The command ``hicache``. Nothing heavy is imported until a subcommand runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point. Exit code 0: fine, 1: failed or ^C, 2: bad usage."""
    try:
        from hicache_nsa.cli.app import hicache
    except KeyboardInterrupt:  # before there is a command that could tell it
        sys.exit(1)
    hicache.main(args=None if arguments is None else list(arguments), prog_name="hicache")
