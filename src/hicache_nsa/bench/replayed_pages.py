"""Pages of copies as the replay of a trace through a full pool leaves them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from hicache_nsa.bench.page_runs import mean_run
from hicache_nsa.tokens import PageIds
from hicache_nsa.transfer import H2D


class ReplayedCopy(Protocol):
    """One load or save of a replay; pair i is one page."""

    @property
    def host_pages(self) -> PageIds:
        """In the order of the prefix."""

    @property
    def device_pages(self) -> PageIds:
        """As many."""


class Replayed:
    """The loads and saves of a replay through pools of that many pages."""

    def __init__(self, loads: Sequence[ReplayedCopy], saves: Sequence[ReplayedCopy]) -> None:
        self._loads = loads
        self._saves = saves

    def pages(self, direction: str, count: int) -> tuple[PageIds, PageIds]:
        """(host pages, device pages) of a copy of ``count`` pages.

        From the second half of the replay, when the pools are full: of the copies that are long
        enough, the first ``count`` pages of the one whose host runs are of median length. Where
        none is long enough, as many copies one after the other as it takes.

        Raises:
            ValueError: all of them together have fewer different pages.
        """
        copies = self._loads if direction == H2D else self._saves
        late = copies[len(copies) // 2 :]
        cut = [(one.host_pages[:count], one.device_pages[:count]) for one in late]
        whole = sorted(
            (pair for pair in cut if len(pair[0]) == count), key=lambda pair: mean_run(pair[0])
        )
        if whole:
            return whole[len(whole) // 2]
        return _one_after_the_other(late, direction, count)


def _one_after_the_other(
    copies: Sequence[ReplayedCopy], direction: str, count: int
) -> tuple[PageIds, PageIds]:
    host: dict[int, int] = {}
    used: set[int] = set()
    for copy in copies:
        for one, other in zip(copy.host_pages.tolist(), copy.device_pages.tolist(), strict=True):
            if one not in host and other not in used and len(host) < count:
                host[one] = other
                used.add(other)
    if len(host) < count:
        raise ValueError(
            f"the second half of the replay has {len(copies)} copies {direction} of {len(host)} "
            f"different pages, {count} are to be copied: give fewer --pages or a longer trace"
        )
    return np.array(list(host), np.int64), np.array(list(host.values()), np.int64)


def replay_trace(path: Path, device_pages: int, host_pages: int, limit: int | None) -> Replayed:
    """Replay the requests of a trace in Mooncake's format, at most ``limit``, through pools of so
    many pages. Loads there are only where the host pool is the larger one.

    Raises:
        ValueError: a broken trace, or a prompt that the device pool is too small for.
    """
    from hicache_nsa.bench.replay import (
        read_mooncake,
        replay,
    )

    done = replay(
        read_mooncake(path), device_pages=device_pages, host_pages=host_pages, limit=limit
    )
    return Replayed(done.loads, done.saves)
