"""``hicache bench tree``: the cases one by one, in rounds, ours and the peers in turn."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict

from hicache_nsa.bench.report import Row
from hicache_nsa.bench.transfer_cases import matching_ids
from hicache_nsa.bench.tree.cases import TreeCase, tree_cases
from hicache_nsa.bench.tree.peers import require_peers
from hicache_nsa.bench.tree.report import TreeReport
from hicache_nsa.bench.tree.settings import OURS, PEERS, TreeSettings
from hicache_nsa.bench.tree.timing import Figures, medians

Step = Callable[[str], None]
NO_TRACE = "give --trace TRACE.jsonl"


class TreeBench:
    """Measure the cases of ``settings``. Use as a context manager, run once.

    Raises:
        ValueError: sizes that do not fit each other, a filter that matches no case, a file that
            can't be used, a peer that is not installed.
    """

    def __init__(self, settings: TreeSettings) -> None:
        _check(settings)
        cases = tree_cases(settings)
        kept = set(matching_ids([case.id for case in cases], settings.pattern))
        wanted = [case for case in cases if case.id in kept]
        self.cases = [case for case in wanted if not case.traced or settings.trace is not None]
        left_out = {case.id: NO_TRACE for case in wanted if case not in self.cases}
        if not self.cases:
            raise ValueError(f"no case is left: {', '.join(left_out)}: {NO_TRACE}")
        versions = require_peers(settings.peers)
        for case in self.cases:
            case.read()
        self.settings = settings
        self.report = TreeReport(_shown(settings), os.getloadavg()[0], left_out, dict(versions))

    @property
    def steps(self) -> int:
        """Cases."""
        return len(self.cases)

    def run(self, step: Step = lambda label: None) -> None:
        """Measure the cases into ``report``, calling ``step`` with a case's id when it is done.

        ^C ends it early; the report has the cases that were done.

        Raises:
            HiCacheError: a tree found something else than it had to.
        """
        try:
            for case in self.cases:
                self.report.cases += self._measure(case)
                step(case.id)
        except KeyboardInterrupt:
            self.report.interrupted = True

    def __enter__(self) -> TreeBench:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def _measure(self, case: TreeCase) -> list[Row]:
        """A row for ours and one for each tree of a peer."""
        names = [OURS]
        if not case.ours_only:
            names += [name for peer in self.settings.peers for name in PEERS[peer]]
        rounds: dict[str, list[Figures]] = {name: [] for name in names}
        for _ in range(self.settings.rounds):
            for name in names:
                rounds[name].append(case.measure(name))
        found = {name: medians(each) for name, each in rounds.items()}
        ours = found[OURS][case.figure]
        return [
            {
                "id": case.id if name == OURS else f"{case.id}/{name}",
                "case": case.id,
                "peer": None if name == OURS else name,
                "figure": case.figure,
                **figures,
                "rounds": self.settings.rounds,
                "ratio": None if name == OURS else ours / figures[case.figure],
                "verified": True,
            }
            for name, figures in found.items()
        ]


def _check(settings: TreeSettings) -> None:
    if settings.evict >= settings.leaves:
        raise ValueError(
            f"--evict {settings.evict} must be less than --leaves {settings.leaves}: "
            "give fewer or more of them"
        )


def _shown(settings: TreeSettings) -> dict[str, object]:
    """The settings, with the names of files in place of their paths."""
    files = {"prompts": settings.prompts, "trace": settings.trace}
    names = {key: None if path is None else path.name for key, path in files.items()}
    return {**asdict(settings), **names}
