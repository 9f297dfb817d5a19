"""``stats()``, and ``check()``: every equation between tree, ledger, pools and copies."""

from __future__ import annotations

from collections import Counter

import numpy as np

from hicache_nsa.cache.copies import Copy, Load
from hicache_nsa.cache.retired import (
    idle_device_pages,
    idle_host_pages,
    read_device_pages,
    read_host_pages,
    void_loading_pages,
)
from hicache_nsa.cache.state import CacheState
from hicache_nsa.errors import native_check, require, require_equal
from hicache_nsa.histogram import Histogram
from hicache_nsa.pools import Pool
from hicache_nsa.stats import DROP_REASONS, MISS_REASONS, CacheStats, TierStats, snapshot
from hicache_nsa.tokens import PageIds, concat_pages
from hicache_nsa.tree import Node, Tier


def device_stats(state: CacheState) -> TierStats:
    """Device pages by state."""
    owned = state.ledger.callers + state.ledger.pending + void_loading_pages(state)
    idle, read = idle_device_pages(state), read_device_pages(state)
    nbytes = state.ledger.pool.num_pages * state.format.page_bytes
    loading = sum([len(load.device_pages) for load in state.loads])
    return _tier_stats(
        state.ledger.pool, state.tree.device, (owned, loading), (idle, read), (nbytes, nbytes),
        state.device_ages,
    )  # fmt: skip


def host_stats(state: CacheState) -> TierStats:
    """Host pages by state."""
    idle, read = idle_host_pages(state), read_host_pages(state) + state.condemned
    nbytes = state.host.nbytes, state.host.ready_bytes
    filling = state.filling, state.filling
    return _tier_stats(state.host, state.tree.host, filling, (idle, read), nbytes, state.host_ages)


def _tier_stats(
    pool: Pool,
    tier: Tier,
    owned: tuple[int, int],
    retired: tuple[int, int],
    nbytes: tuple[int, int],
    ages: Histogram,
) -> TierStats:
    """owned: pages in all, and those of a load or save in flight. retired: pages of retired trees,
    as good as free, and still read by a copy in flight. nbytes: in all, and ready.
    """
    idle, read = retired
    return TierStats(
        total_pages=pool.total_pages,
        free_pages=pool.free_pages + idle,
        evictable_pages=tier.evictable,
        locked_pages=tier.locked + read,
        owned_pages=owned[0],
        in_flight_pages=owned[1],
        pinned_pages=tier.pinned,
        free_extents=pool.free_extents,
        largest_free_extent=pool.largest_free_extent,
        total_bytes=nbytes[0],
        ready_bytes=nbytes[1],
        eviction_age=ages.copy(),
    )


def stats(state: CacheState) -> CacheStats:
    """Both tiers, the copies in flight and the counters, as they are now."""
    return snapshot(
        state.counters,
        device_stats(state),
        host_stats(state),
        len(state.loads),
        len(state.saves),
        state.engine.totals(),
        state.unstarted_saves,
    )


def check(state: CacheState) -> None:
    """Raise ``InvariantError`` with both sides of the first broken equation."""
    state.tree.check()
    state.ledger.pool.check()
    state.host.check()
    state.engine.check()
    nodes = list(state.tree.nodes())
    retired_device, retired_host = _retired_pages(state)
    state.ledger.check((node.device_pages for node in nodes), retired_device)
    _check_host(state, nodes, retired_host)
    for name, tier in (("device", device_stats(state)), ("host", host_stats(state))):
        parts = tier.free_pages + tier.evictable_pages + tier.locked_pages + tier.owned_pages
        require_equal(f"{name} pages by state and in total", parts, tier.total_pages)
    _check_counts(state)
    _check_pins(state, nodes)
    for copy in (*state.loads, *state.saves):
        _check_copy(state, copy)
    loads, saves = set(state.loads), set(state.saves)
    for node in nodes:
        require(node.load is None or node.load in loads, "{} names a load that is over", node)
        require(node.load is None or not node.load.failed, "{} names a load that is disowned", node)
        require(node.save is None or node.save in saves, "{} names a save that is over", node)


def _retired_pages(state: CacheState) -> tuple[PageIds, PageIds]:
    """Device and host pages of all retired trees that are not free yet."""
    device, host = [], []
    for tree, retired in state.retired.items():
        loads = [load for load in state.loads if load.tree is tree]
        copies = len(loads) + sum(save.tree is tree for save in state.saves)
        require_equal("copies in flight of a retired tree", retired.copies, copies)
        device_pages, host_pages = retired.pages_in_use(loads)
        device.append(device_pages)
        host.append(host_pages)
    return concat_pages(device), concat_pages(host)


def _check_host(state: CacheState, nodes: list[Node], retired: PageIds) -> None:
    filling = [save.host_pages for save in state.saves]
    condemned = [load.condemned for load in state.loads]
    used = concat_pages([*filling, *condemned, *(node.host_pages for node in nodes), retired])
    require_equal("host pages in use, each once", np.count_nonzero(np.bincount(used)), len(used))
    require_equal("condemned host pages", state.condemned, sum(map(len, condemned)))
    require_equal("host pages being filled", state.filling, sum(map(len, filling)))
    if state.host.kept:
        cached = np.sort(concat_pages(node.host_pages for node in nodes))
        require_equal(
            "host pages in the page table", state.host.published().tolist(), cached.tolist()
        )
    require_equal("host pages in use", len(used), state.host.total_pages - state.host.free_pages)


def _check_counts(state: CacheState) -> None:
    """The history has all pages of the tree and no other ones as cached; counters add up."""
    native_check(state.history)
    size, counters = state.page_size, state.counters
    pages = state.tree.tokens // size
    require_equal("pages that the history has as cached", state.history.cached, pages)
    missed = [getattr(counters, f"missed_{reason}_tokens") for reason in MISS_REASONS]
    found = counters.matched_device_tokens + counters.found_host_tokens
    require_equal("tokens requested", counters.requested_tokens, found + sum(missed))
    dropped = [getattr(counters, f"dropped_{reason}_tokens") for reason in DROP_REASONS]
    require_equal("tokens dropped", counters.dropped_tokens, sum(dropped))
    for name, ages in (("device", state.device_ages), ("host", state.host_ages)):
        evicted = getattr(counters, f"evicted_{name}_tokens")
        require_equal(f"ages of evicted {name} pages", ages.count * size, evicted)


def _check_pins(state: CacheState, nodes: list[Node]) -> None:
    pinned = Counter(node for pin in state.pins.held(state.epoch) for node in _path(pin._node))
    for node in nodes:
        require_equal("pins of {}", node.pin_ref, pinned[node], node)
        require(node.lock_ref >= node.pin_ref, "{}: lock_ref < {} pins", node, node.pin_ref)
    for tier in (state.tree.device, state.tree.host):
        pages = sum(tier.count(node) for node in pinned)
        require_equal(f"{tier.name} pages under pins, each once", tier.pinned, pages)


def _path(node: Node | None) -> list[Node]:
    return [] if node is None else node.path()


def _check_copy(state: CacheState, copy: Copy) -> None:
    if copy.tree is not state.tree:
        require(copy.tree in state.retired, "a copy in flight at {} lost its tree", copy.node)
        return
    if isinstance(copy, Load) and copy.failed and copy.node.removed:
        return  # a wrong host copy took its nodes along
    nodes = copy.nodes()
    require(not copy.node.removed, "a copy in flight lost its node {}", copy.node)
    for node in nodes:
        require(node.lock_ref > 0, "{} is not locked while a copy uses it", node)
    covered = sum(min(n.end, copy.end) - max(n.start, copy.start) for n in nodes)
    require_equal("tokens under a copy in flight", covered, copy.end - copy.start)
