"""Times of single calls, and what is made of them."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import median
from time import perf_counter_ns
from typing import Any

import numpy as np

Figures = dict[str, float]


def timed(call: Callable[..., Any], arguments: Iterable[Any]) -> tuple[Any, int]:
    """What ``call`` returns, and its nanoseconds."""
    start = perf_counter_ns()
    result = call(*arguments)
    return result, perf_counter_ns() - start


def spread(nanoseconds: Sequence[int], prefix: str = "") -> Figures:
    """``p50_us``, ``p99_us``, ``longest_us`` and ``calls``, each behind ``prefix``."""
    p50, p99 = np.percentile(nanoseconds, [50, 99]) / 1e3
    return {
        f"{prefix}p50_us": float(p50),
        f"{prefix}p99_us": float(p99),
        f"{prefix}longest_us": max(nanoseconds) / 1e3,
        f"{prefix}calls": len(nanoseconds),
    }


def medians(rounds: Sequence[Mapping[str, float]]) -> Figures:
    """The median over the rounds of each figure."""
    return {name: median(each[name] for each in rounds) for name in rounds[0]}


@contextmanager
def collector(on: bool) -> Iterator[None]:
    """Python's garbage collector on or off inside; it starts with nothing left over."""
    was = gc.isenabled()
    gc.collect()
    (gc.enable if on else gc.disable)()
    try:
        yield
    finally:
        (gc.enable if was else gc.disable)()
