"""Device pages for a caller or a load: free ones, and what has to be evicted for them."""

from __future__ import annotations

from collections import Counter

from hicache_nsa.cache.demoting import evict_device_pages
from hicache_nsa.cache.reclaim import pages_to_evict
from hicache_nsa.cache.state import CacheState
from hicache_nsa.errors import OutOfPages
from hicache_nsa.tokens import PageIds


def saves_would_help(state: CacheState, num_pages: int) -> bool:
    """Whether ``num_pages`` can be had once the saves in flight are in, and not before."""
    tier = state.tree.device
    missing = num_pages - state.ledger.pool.free_pages - tier.evictable
    if missing <= 0:
        return False
    saves = Counter(node for save in state.saves for node in save.node.path())
    return missing <= sum(tier.count(n) for n, locks in saves.items() if n.lock_ref == locks)


def allocate_device_pages(
    state: CacheState, num_pages: int, *, save: bool = True
) -> PageIds | None:
    """``num_pages`` device pages for a caller, evicting what is missing and the spare pages.

    None: they will be there once the saves are in that were started for it (write back). save:
    False drops pages without a host copy instead.

    Raises:
        OutOfPages: not enough even so; nothing changed.
    """
    pool, tier = state.ledger.pool, state.tree.device
    missing = num_pages - pool.free_pages
    if missing > tier.evictable + tier.leaving:
        raise OutOfPages(
            f"{_numbers(state, num_pages)}; unlock or free some, or drain() and try again"
        )
    evict = pages_to_evict(pool, num_pages, state.spare) - tier.leaving
    if evict > 0:
        evict_device_pages(state, evict, save=save)
    if pool.free_pages < num_pages:
        return None
    return state.ledger.allocate(num_pages, state.version)


def out_of_pages_yet(state: CacheState, num_pages: int) -> OutOfPages:
    """The error for pages that are being saved, where the caller does not wait."""
    return OutOfPages(
        f"{_numbers(state, num_pages)}; {state.tree.device.leaving} of the locked ones leave once "
        f"their save is in: poll() or drain() and try again"
    )


def _numbers(state: CacheState, num_pages: int) -> str:
    pool, tier = state.ledger.pool, state.tree.device
    return (
        f"{num_pages} device pages wanted: {pool.free_pages} of {pool.total_pages} are free, "
        f"{tier.evictable} evictable, {tier.locked} locked ({len(state.saves)} saves in "
        f"flight), {state.ledger.callers} with callers, {state.ledger.pending} in loads"
    )
