"""What the benches have in common: cases, known beforehand, measured one after the other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from hicache_nsa.bench.report import Row
from hicache_nsa.bench.settings import BenchSettings
from hicache_nsa.bench.stand import Stand

Case = TypeVar("Case")
Step = Callable[[str], None]


class Bench(ABC, Generic[Case]):
    """``cases`` of a bench over pools of ``pool`` pages. Use as a context manager, run once."""

    def __init__(self, settings: BenchSettings, cases: Sequence[Case], pool: int) -> None:
        self.settings = settings
        self.cases = cases
        self.stand = Stand(settings, pool)
        self.report = self.stand.report()

    @property
    def steps(self) -> int:
        """Cases."""
        return len(self.cases)

    def run(self, step: Step = lambda label: None) -> None:
        """Measure the cases into ``report``, calling ``step`` with a case's id when it is done.

        ^C ends it early; the report has what was done, as it has when a copy fails.

        Raises:
            HiCacheError: a copy failed or hangs, or there is not enough memory.
        """
        try:
            for case in self.cases:
                row = self.measure(case)
                self.report.cases.append(row)
                step(row["id"])
            self.stand.measure_missing_peaks(self.report)
        except KeyboardInterrupt:
            self.report.interrupted = True

    @abstractmethod
    def measure(self, case: Case) -> Row:
        """Measure one case; its contiguous copies go into ``report``."""

    def __enter__(self) -> Bench[Case]:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stand.close()
