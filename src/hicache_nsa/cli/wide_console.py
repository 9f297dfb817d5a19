"""Where the tables of figures are printed."""

from __future__ import annotations

from rich.console import Console

PLAIN_WIDTH = 200  # where stdout is not a terminal


def wide_console() -> Console:
    """Stdout, without marks in the text; no narrower than a table where it is no terminal."""
    console = Console(highlight=False, markup=False)
    if console.is_terminal:
        return console
    return Console(highlight=False, markup=False, width=PLAIN_WIDTH)
