"""The command ``hicache``. Nothing heavy is imported until a subcommand runs."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point. Exit code 0: fine, 1: failed, 2: bad usage."""
    from hicache_nsa.cli.app import hicache

    hicache.main(args=None if arguments is None else list(arguments), prog_name="hicache")
