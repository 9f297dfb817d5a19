"""Inserts behind a load that is still in flight.

Pages computed on top of a prefix that is still being loaded are right only if that load succeeds.
Until it is taken in they belong to a ``DeferredInsert``, outside the tree: not matched, not saved.
Then they are inserted, or, if the load failed, dropped. Handles that protect them (a request that
goes on computing) keep pages that the tree does not take until they are unlocked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hicache_nsa._core import Fence, TokenSpan
from hicache_nsa.tokens import PageIds

if TYPE_CHECKING:
    from hicache_nsa.cache.copies import Load
    from hicache_nsa.cache.handles import LockHandle


class DeferredInsert:
    """tokens: the whole prefix, own copy. given: a page for each of its whole pages.

    own: positions whose page this insert brought. loads: the loads it still waits for.
    handles: locks that cover it. settled: inserted or dropped. landed: inserted.
    kept: own pages that the tree did not take, kept for the handles.
    """

    def __init__(
        self,
        tokens: TokenSpan,
        namespace: bytes,
        given: PageIds,
        own: npt.NDArray[np.int64],
        loads: list[Load],
        fence: Fence | None,
        priority: int,
    ) -> None:
        self.tokens = tokens.copy()
        self.namespace = namespace
        self.given = given.copy()
        self.own = own
        self.loads = set(loads)
        self.handles: set[LockHandle] = set()
        self.fence = fence
        self.priority = priority
        self.settled = False
        self.landed = False
        self.kept: PageIds = given[:0]

    @property
    def own_pages(self) -> PageIds:
        """The pages it brought."""
        pages: PageIds = self.given[self.own]
        return pages

    def page_at(self, position: int) -> int:
        """Its own page for whole page ``position``; -1 if it brought none there."""
        index = int(np.searchsorted(self.own, position))
        if index < len(self.own) and self.own[index] == position:
            return int(self.given[position])
        return -1
