"""Plain tables for commands that must run without the extras."""

from __future__ import annotations

from collections.abc import Sequence

GAP = "  "


def columns(rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Lines with the cells of ``rows`` (all equally long) below each other.

    left: so many columns are flush left, the others are numbers and flush right.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        GAP.join(
            cell.ljust(width) if index < left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
