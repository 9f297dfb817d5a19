"""Making room: take whole pages from the tails of the leaves that were used least recently."""

from __future__ import annotations

from collections import Counter

from hicache_nsa.cache.copies import Copy
from hicache_nsa.cache.retired import (
    idle_device_pages,
    read_device_pages,
    reclaim_device,
    void_loading_pages,
)
from hicache_nsa.cache.state import CacheState
from hicache_nsa.errors import OutOfPages
from hicache_nsa.pools import Pool
from hicache_nsa.tokens import PageIds
from hicache_nsa.transfer import D2H, H2D


def evict_device_pages(state: CacheState, num_pages: int) -> int:
    """Evict up to ``num_pages`` device pages; returns how many became free."""
    evicted = state.tree.evict(state.tree.device, num_pages)
    state.ledger.free(evicted.pages, None)
    state.counters.evicted_device_tokens += len(evicted.pages) * state.page_size
    state.counters.dropped_tokens += evicted.dropped_tokens
    return len(evicted.pages)


def evict_host_pages(state: CacheState, num_pages: int) -> int:
    """Evict up to ``num_pages`` host pages; returns how many became free."""
    evicted = state.tree.evict(state.tree.host, num_pages)
    state.host.free(evicted.pages)
    state.counters.evicted_host_tokens += len(evicted.pages) * state.page_size
    state.counters.dropped_tokens += evicted.dropped_tokens
    return len(evicted.pages)


def pages_to_evict(pool: Pool, num_pages: int, spare: float) -> int:
    """Pages to evict before ``num_pages`` are allocated, so that ``spare`` of the pool stays free.

    A pool without a free page has to hand out just what was evicted, in as many pieces; with a
    few spare pages it can choose.
    """
    return max(num_pages + int(spare * pool.total_pages) - pool.free_pages, 0) if num_pages else 0


def available_device_pages(state: CacheState) -> int:
    """Device pages that are free, or that eviction and retired trees could give now."""
    tier = state.tree.device
    return state.ledger.pool.free_pages + tier.evictable + idle_device_pages(state)


def copy_to_await(state: CacheState, num_pages: int) -> Copy | None:
    """The oldest copy in flight in the way of ``num_pages``, if they can be had once the saves and
    the void loads in flight are in, and not before.
    """
    missing = num_pages - available_device_pages(state)
    if missing <= 0:
        return None
    tree, engine = state.tree, state.engine
    saves = [] if engine.held(D2H) else state.saves
    locks = Counter(node for save in saves if save.tree is tree for node in save.node.path())
    in_saves = sum(tree.device.count(n) for n, count in locks.items() if n.lock_ref == count)
    if saves:
        in_saves += read_device_pages(state)
    if missing <= in_saves:
        return saves[0]
    void = [load for load in state.loads if load.tree is not tree and not engine.held(H2D)]
    if not void or missing > in_saves + void_loading_pages(state):
        return None
    return min([*void, *saves], key=lambda copy: copy.number)


def allocate_device_pages(state: CacheState, num_pages: int) -> PageIds:
    """``num_pages`` device pages for a caller, evicting what is missing and the spare pages.

    Raises:
        OutOfPages: not enough even so; nothing changed.
    """
    pool, tier = state.ledger.pool, state.tree.device
    missing = num_pages - pool.free_pages
    idle = idle_device_pages(state)
    if missing > tier.evictable + idle:
        raise OutOfPages(
            f"{num_pages} device pages wanted: {pool.free_pages} of {pool.total_pages} are free, "
            f"{tier.evictable + idle} evictable, {tier.locked + read_device_pages(state)} locked "
            f"({len(state.saves)} saves in flight), {state.ledger.callers} with callers, "
            f"{state.ledger.pending + void_loading_pages(state)} in loads; "
            f"unlock or free some, or drain() and try again"
        )
    evict = pages_to_evict(pool, num_pages, state.spare)
    evict -= reclaim_device(state, evict)
    if evict > 0:
        evict_device_pages(state, evict)
    return state.ledger.allocate(num_pages, state.version)
