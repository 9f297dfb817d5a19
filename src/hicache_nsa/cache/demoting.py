"""Eviction from the device. Under write back pages without a host copy are saved first.

Such pages are *leaving*: they stay in the tree, go on matching and count as locked until the save
is in. Then they leave (``settle_leaving``), unless it failed or somebody has locked them since.
"""

from __future__ import annotations

from typing import NamedTuple

from hicache_nsa.cache.losses import drop_evicted
from hicache_nsa.cache.reclaim import drop_device_pages, free_evicted
from hicache_nsa.cache.retired import idle_device_pages
from hicache_nsa.cache.saving import start_save
from hicache_nsa.cache.state import CacheState
from hicache_nsa.tree import Node


class Evicted(NamedTuple):
    """Pages that are free now, and pages that will be once their save is in."""

    freed: int
    leaving: int


def evict_device_pages(state: CacheState, num_pages: int, *, save: bool = True) -> Evicted:
    """Evict up to ``num_pages`` device pages. With ``save``, as the write policy says.

    What has no host copy and gets none, since the host tier has no room, is dropped.
    """
    if not (save and state.write_policy.at_eviction and state.host.total_pages):
        return Evicted(drop_device_pages(state, num_pages), 0)
    pool, tier = state.ledger.pool, state.tree.device
    free, leaving = pool.free_pages + idle_device_pages(state), tier.leaving
    demotion = state.tree.demote(num_pages)
    free_evicted(state, demotion.pages, demotion.uses)
    try:
        for node in demotion.leaving:
            start_save(state, node)
    except BaseException:
        for node in demotion.leaving:
            if node.save is None:
                tier.stay(node)
        raise
    for node in demotion.leaving:
        _drop_unsaved(state, node)
        settle_leaving(state, node)
    free = pool.free_pages + idle_device_pages(state) - free  # a save may reclaim some, too
    return Evicted(free, tier.leaving - leaving)


def settle_leaving(state: CacheState, node: Node) -> None:
    """If no save of ``node`` is in flight: what was to leave of it and above it does, or stays."""
    tree = state.tree
    while node.parent is not None and node.leaving:
        if tree.device.leaving_children(node) or node.save is not None:
            return  # another save is not in yet
        if node.lock_ref or tree.host.count(node) < tree.device.count(node):
            tree.device.stay(node)
            return
        _take_leaving(state, node, node.leaving)
        node = node.parent


def keep_low_water(state: CacheState) -> None:
    """Under write back: let so many pages leave that ``low_water`` of them will be free."""
    pool, tier = state.ledger.pool, state.tree.device
    wanted = int(state.low_water * pool.total_pages) - pool.free_pages - tier.leaving
    wanted -= idle_device_pages(state)
    if wanted > 0:
        evict_device_pages(state, wanted)


def _drop_unsaved(state: CacheState, node: Node) -> None:
    """Drop the leaving pages of ``node`` that neither have a host copy nor are getting one."""
    tree, size = state.tree, state.page_size
    saved = tree.host.count(node)
    if node.save is not None:
        saved = max(saved, (min(node.save.end, node.end) - node.start) // size)
    count = min(tree.device.count(node) - saved, node.leaving)
    if count > 0:
        _take_leaving(state, node, count)
        drop_evicted(state, tree.trim(node))


def _take_leaving(state: CacheState, node: Node, count: int) -> None:
    pages = state.tree.device.take_leaving(node, count)
    free_evicted(state, pages, [(node.last_access, count)])
