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

from hicache_nsa._core import Fence
from hicache_nsa.cache.copies import Load
from hicache_nsa.cache.insertion import Insertion
from hicache_nsa.cache.losses import drop_never_came
from hicache_nsa.cache.state import CacheState
from hicache_nsa.plan import InsertPlan, Prefix
from hicache_nsa.tokens import NO_PAGES, PageIds

if TYPE_CHECKING:
    from hicache_nsa.cache.handles import LockHandle


class DeferredInsert:
    """insertion: what was given. own: indices whose page this insert brought.

    loads: the loads it still waits for. handles: locks that cover it.
    settled: inserted or dropped. landed: inserted.
    kept: own pages that the tree did not take, kept for the handles.
    """

    def __init__(self, insertion: Insertion, own: npt.NDArray[np.int64], loads: list[Load]) -> None:
        self.insertion = insertion.kept()
        self.own = own
        self.loads = set(loads)
        self.handles: set[LockHandle] = set()
        self.settled = False
        self.landed = False
        self.kept: PageIds = NO_PAGES

    @property
    def own_pages(self) -> PageIds:
        """The pages it brought."""
        pages: PageIds = self.insertion.pages[self.own]
        return pages

    def has(self, indices: npt.NDArray[np.int64], pages: PageIds, prefix: Prefix) -> bool:
        """Whether ``pages`` are those it brought for those whole pages of that prefix."""
        mine = self.insertion
        if mine.namespace != prefix.namespace or not np.isin(indices, self.own).all():
            return False
        size = len(mine.tokens) // len(mine.pages)
        same = mine.tokens.common_prefix(prefix.tokens) >= (int(indices[-1]) + 1) * size
        return same and np.array_equal(mine.pages[indices], pages)


def defer(
    state: CacheState, insertion: Insertion, plan: InsertPlan, handle: LockHandle | None
) -> None:
    """Keep the pages from ``plan.upto`` on until the loads before them are in."""
    loads: list[Load] = []
    doomed = False
    for holder in plan.behind:
        if isinstance(holder, Load):
            loads.append(holder)
            holder.inserted_behind = True
            doomed |= holder.acked
            if handle is not None:  # its pages are in use until the handle is unlocked
                holder.users += 1
                handle._loads.append(holder)
        elif isinstance(holder, DeferredInsert):
            loads.extend(holder.loads)
            doomed |= holder.settled
            _cover(holder, handle)
    if len(plan.own) == 0:
        return
    deferred = DeferredInsert(insertion, plan.own, loads)
    state.ledger.busy(deferred.own_pages, insertion.fence)
    state.ledger.set_pending(deferred.own_pages, deferred)
    _cover(deferred, handle)
    if doomed:
        drop_deferred(state, deferred)
        return
    for load in deferred.loads:
        load.waiting.append(deferred)


def drop_deferred(state: CacheState, deferred: DeferredInsert) -> None:
    """A load that ``deferred`` stands on failed: its pages are freed once unlocked."""
    deferred.settled = True
    drop_never_came(state, deferred.insertion, deferred.own)
    keep_or_free(state, deferred, deferred.own_pages)


def keep_or_free(state: CacheState, deferred: DeferredInsert, pages: PageIds) -> None:
    """Pages of ``deferred`` that the tree does not take: kept for its handles, or freed."""
    deferred.kept = pages
    if not deferred.handles:
        free_kept(state, deferred, deferred.insertion.fence)


def free_kept(state: CacheState, deferred: DeferredInsert, fence: Fence | None) -> None:
    """No handle is left: free the pages that were kept."""
    state.ledger.free(deferred.kept, fence)
    deferred.kept = NO_PAGES


def _cover(deferred: DeferredInsert, handle: LockHandle | None) -> None:
    if handle is not None:
        handle._deferred.append(deferred)
        deferred.handles.add(handle)
