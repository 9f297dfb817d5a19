"""Making room: take whole pages from the tails of the leaves that the eviction policy picks."""

from __future__ import annotations

from collections.abc import Sequence

from hicache_nsa.cache.losses import drop_evicted
from hicache_nsa.cache.state import CacheState
from hicache_nsa.pools import Pool
from hicache_nsa.tokens import PageIds


def evict_host_pages(state: CacheState, num_pages: int) -> int:
    """Evict up to ``num_pages`` host pages; returns how many became free."""
    evicted = state.tree.evict(state.tree.host, num_pages)
    count = len(evicted.pages)
    if count:
        state.host.free(evicted.pages)
        state.counters.evicted_host_tokens += count * state.tree.page_size
        state.uses.add_ages(state.host_ages, evicted.uses)
        drop_evicted(state, evicted.dropped_keys)
    return count


def drop_device_pages(state: CacheState, num_pages: int) -> int:
    """Evict up to ``num_pages`` device pages, saved or not; returns how many became free."""
    evicted = state.tree.evict(state.tree.device, num_pages)
    free_evicted(state, evicted.pages, evicted.uses)
    drop_evicted(state, evicted.dropped_keys)
    return len(evicted.pages)


def free_evicted(state: CacheState, pages: PageIds, uses: Sequence[tuple[int, int]]) -> None:
    """Device pages that have left the tree. uses: of their nodes, see ``Eviction``."""
    if len(pages):
        state.ledger.evict(pages)
        state.counters.evicted_device_tokens += len(pages) * state.page_size
        state.uses.add_ages(state.device_ages, uses)


def pages_to_evict(pool: Pool, num_pages: int, spare: float) -> int:
    """Pages to evict before ``num_pages`` are allocated, so that ``spare`` of the pool stays free.

    A pool without a free page has to hand out just what was evicted, in as many pieces; with a
    few spare pages it can choose.
    """
    return max(num_pages + int(spare * pool.total_pages) - pool.free_pages, 0) if num_pages else 0
