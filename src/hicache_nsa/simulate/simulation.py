"""A list of cases, one replay after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from hicache_nsa.formats import PoolFormat
from hicache_nsa.simulate.bound import most_hit_pages
from hicache_nsa.simulate.case import Case
from hicache_nsa.simulate.estimate import TtftEstimate
from hicache_nsa.simulate.prefixes import prefix_runs
from hicache_nsa.simulate.report import SimulationReport, result_of
from hicache_nsa.simulate.serving import Served, Tiers, serve, tiers_of
from hicache_nsa.traces import Trace

STEPS = 100  # of the progress of a case
Step = Callable[[str], None]


class Simulation:
    """``cases`` over one trace, with pages of ``format``. Run once; ``report`` grows meanwhile.

    flush_at: the device is flushed when so many requests are over. write_threshold: see
    ``HiCache``. estimate: for times to first token, or None.

    Raises:
        ValueError: a flush after more requests than there are, or pages of another size than the
            trace was read with.
    """

    def __init__(
        self,
        trace: Trace,
        format: PoolFormat,
        cases: Sequence[Case],
        *,
        flush_at: Sequence[int] = (),
        write_threshold: int = 2,
        estimate: TtftEstimate | None = None,
    ) -> None:
        late = [number for number in flush_at if number > len(trace.requests)]
        if late:
            raise ValueError(
                f"a flush at request {late[0]}, but the trace has {len(trace.requests)} requests"
            )
        if format.page_size != trace.page_size:
            raise ValueError(
                f"the trace was read in pages of {trace.page_size} tokens, the format has "
                f"{format.page_size}"
            )
        self.cases = cases
        self._runs = prefix_runs(trace.requests)
        self._bounds: dict[tuple[int, int], int] = {}
        self.report = SimulationReport(
            trace, format, self._runs.pages, tuple(flush_at), write_threshold, estimate
        )

    @property
    def steps(self) -> int:
        """How often ``run`` calls its ``step``, at most."""
        return STEPS * len(self.cases)

    def run(self, step: Step = lambda label: None) -> None:
        """Serve the trace once a case into ``report``; ^C ends it early, which keeps what is done
        of the case under way.
        """
        try:
            for case in self.cases:
                self._run(case, step)
        except KeyboardInterrupt:
            self.report.interrupted = True

    def _run(self, case: Case, step: Step) -> None:
        report, trace = self.report, self.report.trace
        count = len(trace.requests)
        marks = {count * part // STEPS for part in range(1, STEPS + 1)}
        tiers = tiers_of(case, report.format.page_bytes, trace, report.distinct_pages)
        served, begin, bound = Served(), time.perf_counter(), None
        try:
            serve(
                trace,
                case,
                tiers,
                report.format.page_bytes,
                write_threshold=report.write_threshold,
                flush_at=report.flush_at,
                served=served,
                step=lambda over: step(str(case)) if over in marks else None,
            )
            bound = self._bound(tiers)
        finally:
            seconds = time.perf_counter() - begin
            if served.requests:
                report.results.append(
                    result_of(trace, case, tiers, served, bound, report.estimate, seconds)
                )

    def _bound(self, tiers: Tiers) -> int:
        """Pages that the best of all policies finds; a flush leaves it what host has room for."""
        key = tiers.device, tiers.host
        if key not in self._bounds:
            flushes = frozenset(self.report.flush_at)

            def room(served: int) -> int:
                return tiers.host if served in flushes else tiers.device + tiers.host

            self._bounds[key] = most_hit_pages(self._runs, room)
        return self._bounds[key]
