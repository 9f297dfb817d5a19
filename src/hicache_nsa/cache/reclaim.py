"""Making room: take whole pages from the tails of the leaves that were used least recently."""

from __future__ import annotations

from collections import Counter

from hicache_nsa.cache.state import CacheState
from hicache_nsa.errors import OutOfPages
from hicache_nsa.pools import Pool
from hicache_nsa.tokens import PageIds


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


def saves_would_help(state: CacheState, num_pages: int) -> bool:
    """Whether ``num_pages`` can be had once the saves in flight are in, and not before."""
    tier = state.tree.device
    missing = num_pages - state.ledger.pool.free_pages - tier.evictable
    if missing <= 0:
        return False
    saves = Counter(node for save in state.saves for node in save.node.path())
    return missing <= sum(tier.count(n) for n, locks in saves.items() if n.lock_ref == locks)


def allocate_device_pages(state: CacheState, num_pages: int) -> PageIds:
    """``num_pages`` device pages for a caller, evicting what is missing and the spare pages.

    Raises:
        OutOfPages: not enough even so; nothing changed.
    """
    pool, tier = state.ledger.pool, state.tree.device
    missing = num_pages - pool.free_pages
    if missing > tier.evictable:
        raise OutOfPages(
            f"{num_pages} device pages wanted: {pool.free_pages} of {pool.total_pages} are free, "
            f"{tier.evictable} evictable, {tier.locked} locked ({len(state.saves)} saves in "
            f"flight, {tier.pinned} pinned), {state.ledger.callers} with callers, "
            f"{state.ledger.pending} in loads; unlock or free some, or drain() and try again"
        )
    evict = pages_to_evict(pool, num_pages, state.spare)
    if evict:
        evict_device_pages(state, evict)
    return state.ledger.allocate(num_pages, state.version)
