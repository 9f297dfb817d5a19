"""``Histogram``: how many of the values seen lie in which range, and their sum."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


class Histogram:
    """Counts of values by range, as Prometheus has them. Counts and sum never fall.

    bounds: ascending; range i holds values up to and including ``bounds[i]`` that are above the
    bound before; one more range holds what is above all. counts: by range. total: the sum of all
    values.
    """

    __slots__ = ("bounds", "counts", "total")
    __hash__ = None  # type: ignore[assignment]  # it grows

    def __init__(
        self, bounds: Sequence[float], counts: Sequence[int] | None = None, total: float = 0.0
    ) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1) if counts is None else list(counts)
        self.total = total
        if len(self.counts) != len(self.bounds) + 1:
            raise ValueError(f"{len(self.bounds)} bounds make {len(self.bounds) + 1} ranges, got "
                             f"{len(self.counts)} counts")  # fmt: skip

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Histogram):
            return NotImplemented
        mine = self.bounds, self.counts, self.total
        return mine == (other.bounds, other.counts, other.total)

    def __repr__(self) -> str:
        return f"Histogram(bounds={self.bounds}, counts={self.counts}, total={self.total})"

    def add(self, value: float, times: int = 1) -> None:
        """``times`` values of that size were seen."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times

    @property
    def count(self) -> int:
        """How many values were seen."""
        return sum(self.counts)

    def copy(self) -> Histogram:
        """What was seen so far."""
        return Histogram(self.bounds, self.counts, self.total)
