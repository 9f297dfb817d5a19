"""A stopwatch that can leave out what is not part of serving."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter


class Stopwatch:
    """Runs from its creation."""

    def __init__(self) -> None:
        self._start = perf_counter()

    def seconds(self) -> float:
        """Seconds since the start, without the pauses."""
        return perf_counter() - self._start

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Time spent inside does not count."""
        begin = perf_counter()
        try:
            yield
        finally:
            self._start += perf_counter() - begin
