"""Loading a prefix from host memory against computing it again. Pure.

Both are estimates. A load is taken as ``fixed + bytes / bandwidth``, without the computing that it
runs beside; recomputing as ``tokens / prefill_rate``, though attention costs more a token in a
longer prefix. Both favour recomputing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from hicache_nsa.formats import PoolFormat

FORMULA = "fixed / (1 / prefill_rate - token_bytes / bandwidth), rounded up to whole pages"


@dataclass(frozen=True)
class FixedCost:
    """Of a load, whatever its length. source: where the number is from."""

    seconds: float = 250e-6
    source: str = (
        "docs/benchmarks.md, one H200: at most 154 us to submit 512 pages, 100 us through the ring"
    )


@dataclass(frozen=True)
class LoadTime:
    """Of the whole pages of a prefix. Seconds are None where what they depend on is unknown."""

    tokens: int
    pages: int
    nbytes: int
    seconds: float | None
    recompute_seconds: float | None


@dataclass(frozen=True)
class BreakEven:
    """From how many tokens on a load takes no longer than recomputing; None: at no length."""

    tokens: int | None
    prefill_rate: float


def load_time(
    format: PoolFormat,
    tokens: int,
    bytes_per_second: float | None,
    prefill_rate: float | None,
    fixed_seconds: float,
) -> LoadTime:
    """Of a host hit of ``tokens``: whole pages only.

    Raises:
        ValueError: fewer tokens than a page has.
    """
    pages = tokens // format.page_size
    if pages == 0:
        raise ValueError(f"{tokens} tokens are below one page of {format.page_size}")
    nbytes = pages * format.page_bytes
    loaded = None if bytes_per_second is None else fixed_seconds + nbytes / bytes_per_second
    computed = None if prefill_rate is None else pages * format.page_size / prefill_rate
    return LoadTime(tokens, pages, nbytes, loaded, computed)


def break_even(
    format: PoolFormat, bytes_per_second: float, prefill_rate: float, fixed_seconds: float
) -> BreakEven:
    """By the formula of this module."""
    gain = 1 / prefill_rate - format.token_bytes / bytes_per_second
    if gain <= 0:
        return BreakEven(None, prefill_rate)
    pages = max(1, math.ceil(fixed_seconds / gain / format.page_size))
    return BreakEven(pages * format.page_size, prefill_rate)
