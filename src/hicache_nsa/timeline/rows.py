"""Which spans can share a row of a picture. Pure.

A row (a thread of the file) shows one span inside another; two that overlap in part would be
drawn wrong. So each goes into the first row where it fits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")
Times = Callable[[Item], tuple[int, int]]


def nested_rows(items: Sequence[Item], times: Times[Item], nest: bool = True) -> list[list[Item]]:
    """``items`` spread over as few rows as it takes greedily, each in the order of beginnings.

    times: (begin, end) of an item. Two of a row are one after the other or, with ``nest``, one
    inside the other; of two with the same times the one that comes later in ``items`` (it was
    recorded later, so it ended last) is the outer one.
    """
    order = list(items)[::-1]  # the sort keeps the order of equals
    order.sort(key=lambda item: (times(item)[0], -times(item)[1]))
    rows: list[list[Item]] = []
    open_ends: list[list[int]] = []  # by row: ends of what is open at this point, innermost last
    for item in order:
        begin, end = times(item)
        for row, ends in zip(rows, open_ends, strict=True):
            while ends and ends[-1] <= begin:
                ends.pop()
            if not ends or (nest and end <= ends[-1]):
                row.append(item)
                ends.append(end)
                break
        else:
            rows.append([item])
            open_ends.append([end])
    return rows
