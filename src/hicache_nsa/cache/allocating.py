"""Device pages for a caller or a load: free ones, and what has to be evicted for them."""

from __future__ import annotations

from collections import Counter

from hicache_nsa.cache.copies import Copy
from hicache_nsa.cache.demoting import evict_device_pages
from hicache_nsa.cache.reclaim import pages_to_evict
from hicache_nsa.cache.retired import (
    idle_device_pages,
    read_device_pages,
    reclaim_device,
    void_loading_pages,
)
from hicache_nsa.cache.state import CacheState
from hicache_nsa.errors import OutOfPages
from hicache_nsa.tokens import PageIds
from hicache_nsa.transfer import D2H, H2D


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
    if missing > tier.evictable + tier.leaving + idle_device_pages(state):
        raise OutOfPages(
            f"{_numbers(state, num_pages)}; unlock or free some, or drain() and try again"
        )
    evict = pages_to_evict(pool, num_pages, state.spare)
    evict -= reclaim_device(state, evict) + tier.leaving
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
        f"{tier.evictable + idle_device_pages(state)} evictable, "
        f"{tier.locked + read_device_pages(state)} locked ({len(state.saves)} saves in flight), "
        f"{state.ledger.callers} with callers, "
        f"{state.ledger.pending + void_loading_pages(state)} in loads"
    )
