"""Ranks that are threads of one process, and a collective for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")
SECONDS = 60


def run_in_threads(
    ranks: int, work: Callable[[int, Callable[[Sequence[int]], list[int]]], Result]
) -> list[Result]:
    """``work(rank, least)`` of every rank at a time; a rank that fails releases the others."""
    barrier = threading.Barrier(ranks)
    said: list[Sequence[int]] = [()] * ranks

    def run(rank: int) -> Result:
        def least(numbers: Sequence[int]) -> list[int]:
            said[rank] = tuple(numbers)
            barrier.wait(SECONDS)
            together = [min(column) for column in zip(*said, strict=True)]
            barrier.wait(SECONDS)
            return together

        try:
            return work(rank, least)
        except BaseException:
            barrier.abort()
            raise

    with ThreadPoolExecutor(ranks) as pool:
        return list(pool.map(run, range(ranks)))
