"""Making room: take whole pages from the tails of the leaves that were used least recently."""

from __future__ import annotations

from collections import Counter

from hicache_nsa.cache.state import CacheState
from hicache_nsa.errors import OutOfPages
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


def saves_would_help(state: CacheState, num_pages: int) -> bool:
    """Whether ``num_pages`` can be had once the saves in flight are in, and not before."""
    tier = state.tree.device
    missing = num_pages - state.ledger.pool.free_pages - tier.evictable
    if missing <= 0:
        return False
    saves = Counter(node for save in state.saves for node in save.node.path())
    return missing <= sum(tier.count(n) for n, locks in saves.items() if n.lock_ref == locks)


def allocate_device_pages(state: CacheState, num_pages: int) -> PageIds:
    """``num_pages`` device pages for a caller, evicting no more than is missing.

    Raises:
        OutOfPages: not enough even so; nothing changed.
    """
    pool, tier = state.ledger.pool, state.tree.device
    missing = num_pages - pool.free_pages
    if missing > tier.evictable:
        raise OutOfPages(
            f"{num_pages} device pages wanted: {pool.free_pages} of {pool.total_pages} are free, "
            f"{tier.evictable} evictable, {tier.locked} locked ({len(state.saves)} saves in "
            f"flight), {state.ledger.callers} with callers, {state.ledger.pending} in loads; "
            f"unlock or free some, or drain() and try again"
        )
    if missing > 0:
        evict_device_pages(state, missing)
    return state.ledger.allocate(num_pages, state.version)
