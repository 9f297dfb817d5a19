"""Insert: take computed pages into the tree, find duplicates, adopt, start the save."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hicache_nsa.cache.deferred import DeferredInsert, defer, drop_deferred, keep_or_free
from hicache_nsa.cache.handles import LockHandle
from hicache_nsa.cache.insertion import Insertion
from hicache_nsa.cache.retired import refuse_retired
from hicache_nsa.cache.saving import save_due
from hicache_nsa.cache.state import CacheState
from hicache_nsa.cache.warm_restart import note_priority
from hicache_nsa.errors import StaleHandleError
from hicache_nsa.plan import (
    InsertPlan,
    Owner,
    Prefix,
    cached_tokens,
    plan_insert,
    tree_pages,
)
from hicache_nsa.tokens import PageIds
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


def insert_pages(state: CacheState, insertion: Insertion, lock: bool) -> InsertResult:
    """Insert whole pages.

    Raises:
        ValueError, StaleHandleError: a page can't be inserted; nothing changed.
    """
    refuse_retired(state, insertion.pages)
    prefix = _find(state, insertion)
    plan = plan_insert(prefix, insertion.pages, state.ledger, state.page_size)
    _require_current(state, insertion.pages)
    if insertion.fence is not None:
        state.ledger.busy(insertion.pages[plan.taken], insertion.fence)
    node = _put_into_tree(state, insertion, plan, prefix)
    state.ledger.free(plan.duplicates, insertion.fence)
    handle = _lock(state, node, len(insertion.tokens)) if lock else None
    if plan.upto < len(insertion.pages):
        defer(state, insertion, plan, handle)
    inserted = (len(plan.taken) + len(plan.own)) * state.page_size
    duplicates = len(insertion.tokens) - inserted
    state.counters.inserted_tokens += inserted
    state.counters.duplicate_tokens += duplicates
    return InsertResult(plan.pages, duplicates, inserted, handle)


def insert_deferred(state: CacheState, deferred: DeferredInsert) -> None:
    """The loads that ``deferred`` waited for have landed: put its pages into the tree."""
    tree, ledger = state.tree, state.ledger
    insertion = deferred.insertion
    prefix = _find(state, insertion)
    pages = tree_pages(prefix, len(insertion.pages), state.page_size)
    pages[deferred.own] = deferred.own_pages
    if (pages < 0).any():  # what it stands on was evicted since
        drop_deferred(state, deferred)
        return
    deferred.settled = deferred.landed = True
    ledger.take_back(deferred.own_pages)
    insertion = insertion.with_pages(pages)
    plan = plan_insert(prefix, pages, ledger, state.page_size)
    node = _put_into_tree(state, insertion, plan, prefix)
    for handle in deferred.handles:
        tree.lock(node)
        tree.unlock(handle._node)
        handle._node = node
    ledger.set_pending(plan.duplicates, deferred)
    keep_or_free(state, deferred, plan.duplicates)


def _find(state: CacheState, insertion: Insertion) -> Prefix:
    """What the tree shares with the tokens."""
    path, end = state.tree.find(insertion.tokens, insertion.namespace)
    return Prefix(insertion.tokens, insertion.namespace, path, end)


def _put_into_tree(
    state: CacheState, insertion: Insertion, plan: InsertPlan, prefix: Prefix
) -> Node | None:
    """The tree takes the plan's pages and their save starts; returns the deepest node."""
    tree, size, end = state.tree, state.page_size, prefix.end
    given, limit = insertion.pages, plan.upto * size
    state.ledger.cache(given[plan.taken])
    node = tree.cut(prefix.path[-1], end) if prefix.path else None
    path = [] if node is None else node.path()
    note_priority(state, path, insertion.priority)
    state.uses.note(tree.clock + 1)
    tree.touch(path, hit=False, priority=insertion.priority)  # before it is queued by its key
    for shared in path:
        have = shared.start + tree.device.count(shared) * size
        stop = min(shared.end, limit)
        if have < stop:
            more = given[have // size : stop // size]
            tree.set_device(shared, np.concatenate([shared.device_pages, more]))
    if end < limit:
        parent = node or tree.root(insertion.namespace)
        node = tree.add(parent, insertion.tokens.slice(end, limit), insertion.priority)
        path.append(node)
        state.history.enter(node.packed_keys)
        tree.set_device(node, given[end // size : plan.upto])
    save_due(state, path)
    return node


def _lock(state: CacheState, node: Node | None, tokens: int) -> LockHandle:
    """A handle on the path down to ``node``."""
    state.tree.lock(node)
    path = [] if node is None else node.path()
    device_tokens, host_tokens = cached_tokens(path, tokens, state.page_size)
    return LockHandle(node, state.epoch, device_tokens, host_tokens)


def _require_current(state: CacheState, pages: PageIds) -> None:
    """Pages allocated before ``invalidate`` hold KV of other weights."""
    if state.version == 0:  # there was none
        return
    callers = state.ledger.owner[pages] == Owner.CALLER
    old = np.flatnonzero(callers & (state.ledger.version[pages] != state.version))
    if len(old):
        page = int(pages[old[0]])
        raise StaleHandleError(
            f"page {page} was allocated at version {state.ledger.version[page]}, the cache is at "
            f"{state.version} (invalidate() was called since): free it and compute it anew"
        )
