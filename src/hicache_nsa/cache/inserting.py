"""Insert: take computed pages into the tree, find duplicates, adopt, start the save."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hicache_nsa._core import Fence, TokenSpan
from hicache_nsa.cache.copies import Load
from hicache_nsa.cache.deferred import DeferredInsert
from hicache_nsa.cache.handles import LockHandle
from hicache_nsa.cache.saving import start_save
from hicache_nsa.cache.state import CacheState
from hicache_nsa.errors import StaleHandleError
from hicache_nsa.plan import InsertPlan, Owner, cached_prefix, plan_insert, tree_pages
from hicache_nsa.tokens import NO_PAGES, PageIds
from hicache_nsa.tree import Node


@dataclass(frozen=True)
class InsertResult:
    """pages: the page to use for each whole page of the tokens from now on, int64.
    duplicate_tokens: were on the device (or being loaded) already.
    inserted_tokens: taken in now, adopted ones and those that wait for a load included.
    handle: what to unlock, None where no lock was asked for.
    """

    pages: PageIds
    duplicate_tokens: int
    inserted_tokens: int
    handle: LockHandle | None


def insert_pages(
    state: CacheState,
    tokens: TokenSpan,
    namespace: bytes,
    given: PageIds,
    fence: Fence | None,
    priority: int,
    lock: bool,
) -> InsertResult:
    """Insert whole pages; ``tokens`` and ``given`` have equal numbers of them, all checked.

    Raises:
        ValueError, StaleHandleError: a page can't be inserted; nothing changed.
    """
    path, end = state.tree.find(tokens, namespace)
    plan = plan_insert(path, end, given, state.ledger, state.page_size)
    _require_current(state, given)
    state.ledger.busy(given[plan.taken], fence)
    node = _take_in(state, tokens, namespace, plan, path, end, given, priority)
    state.ledger.free(plan.duplicates, fence)
    handle = None
    if lock:
        state.tree.lock(node)
        there = cached_prefix([] if node is None else node.path(), len(tokens), state.page_size)
        handle = LockHandle(
            node,
            state.epoch,
            len(there.device_pages) * state.page_size,
            len(there.host_pages) * state.page_size,
        )
    if plan.upto < len(given):
        _defer(state, tokens, namespace, plan, given, fence, priority, handle)
    inserted = (len(plan.taken) + len(plan.own)) * state.page_size
    duplicates = len(tokens) - inserted
    state.counters.inserted_tokens += inserted
    state.counters.duplicate_tokens += duplicates
    return InsertResult(plan.pages, duplicates, inserted, handle)


def insert_deferred(state: CacheState, record: DeferredInsert) -> None:
    """The loads that ``record`` waited for have landed: take its pages into the tree."""
    tree, ledger = state.tree, state.ledger
    path, end = tree.find(record.tokens, record.namespace)
    given = tree_pages(path, end, len(record.given), state.page_size)
    given[record.own] = record.own_pages
    if (given < 0).any():  # what it stands on was evicted since
        drop_deferred(state, record)
        return
    record.settled = record.landed = True
    ledger.take_back(record.own_pages)
    plan = plan_insert(path, end, given, ledger, state.page_size)
    node = _take_in(state, record.tokens, record.namespace, plan, path, end, given, record.priority)
    for handle in record.handles:
        tree.lock(node)
        tree.unlock(handle._node)
        handle._node = node
    if record.handles:
        ledger.hold(plan.duplicates, record)
        record.kept = plan.duplicates
    else:
        ledger.free(plan.duplicates, record.fence)


def drop_deferred(state: CacheState, record: DeferredInsert) -> None:
    """A load that ``record`` stands on failed: its pages are freed once unlocked."""
    record.settled = True
    state.counters.dropped_tokens += len(record.own) * state.page_size
    record.kept = record.own_pages
    if not record.handles:
        release_kept(state, record, record.fence)


def release_kept(state: CacheState, record: DeferredInsert, fence: Fence | None) -> None:
    """The last handle is gone: free the pages that were kept for it."""
    state.ledger.free(record.kept, fence)
    record.kept = NO_PAGES


def _take_in(
    state: CacheState,
    tokens: TokenSpan,
    namespace: bytes,
    plan: InsertPlan,
    path: list[Node],
    end: int,
    given: PageIds,
    priority: int,
) -> Node | None:
    """Put the plan's taken pages into the tree and start the save; returns the deepest node."""
    tree, size = state.tree, state.page_size
    limit = plan.upto * size
    state.ledger.cache(given[plan.taken])
    node = tree.cut(path[-1], end) if path else None
    path = [] if node is None else node.path()
    for shared in path:
        have = shared.start + tree.device.count(shared) * size
        stop = min(shared.end, limit)
        if have < stop:
            more = given[have // size : stop // size]
            tree.set_device(shared, np.concatenate([shared.device_pages, more]))
    if end < limit:
        node = tree.add(node or tree.root(namespace), tokens.slice(end, limit))
        path.append(node)
        tree.set_device(node, given[end // size : plan.upto].copy())
    if node is None:
        return None
    tree.touch(path, hit=False)
    for used in path:
        used.priority = max(used.priority, priority)
    start_save(state, node)
    return node


def _defer(
    state: CacheState,
    tokens: TokenSpan,
    namespace: bytes,
    plan: InsertPlan,
    given: PageIds,
    fence: Fence | None,
    priority: int,
    handle: LockHandle | None,
) -> None:
    """Keep the pages from ``plan.upto`` on until the loads before them are in."""
    loads: list[Load] = []
    doomed = False
    for holder in plan.behind:
        if isinstance(holder, Load):
            loads.append(holder)
            doomed |= holder.acked
            if handle is not None:  # its pages are in use until the handle is unlocked
                holder.users += 1
                handle._loads.append(holder)
        else:
            loads.extend(holder.loads)
            doomed |= holder.settled
            if handle is not None:
                _attach(handle, holder)
    if len(plan.own) == 0:
        return
    record = DeferredInsert(tokens, namespace, given, plan.own, loads, fence, priority)
    state.ledger.busy(record.own_pages, fence)
    state.ledger.hold(record.own_pages, record)
    if handle is not None:
        _attach(handle, record)
    if doomed:
        drop_deferred(state, record)
        return
    for load in record.loads:
        load.waiting.append(record)


def _attach(handle: LockHandle, record: DeferredInsert) -> None:
    handle._deferred.append(record)
    record.handles.add(handle)


def _require_current(state: CacheState, given: PageIds) -> None:
    """Pages allocated before ``invalidate`` hold KV of other weights."""
    own = state.ledger.state[given] == Owner.CALLER
    old = np.flatnonzero(own & (state.ledger.version[given] != state.version))
    if len(old):
        page = int(given[old[0]])
        raise StaleHandleError(
            f"page {page} was allocated at version {state.ledger.version[page]}, the cache is at "
            f"{state.version} (invalidate() was called since): free it and compute it anew"
        )
