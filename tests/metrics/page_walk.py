"""Which pages are in which state, by a walk over nodes, owners and copies: no counter is asked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

import hicache_nsa as hc
from hicache_nsa.plan import Owner
from hicache_nsa.tree import Node


@dataclass(frozen=True)
class Walked:
    """Pages of one tier in all, by state and under pins, and the longest run of free ones."""

    total: int
    states: dict[str, int]
    pinned: int
    longest: int


def walk_device(cache: hc.HiCache, reserved: Iterable[int] = ()) -> Walked:
    """in_flight: loads not taken in bring them. owned: of callers, of what is kept for them."""
    state, nodes = cache._state, list(cache.tree.nodes())
    everything = set(range(cache.device_pool.num_pages)) - set(reserved)
    owners = state.ledger.owner
    used = {page for page in everything if owners[page] != Owner.FREE}
    current, retired = _loads(cache)
    filling = {p for load in current + retired for p in load.device_pages.tolist()}
    locked, cached = _by_lock(nodes, lambda node: node.device_pages)
    void_saves = [save for save in state.saves if save.tree is not cache.tree]
    read = {page for save in void_saves for page in save.device_pages.tolist()}
    callers = {page for page in everything if owners[page] == Owner.CALLER}
    kept = set(state.ledger.holder) - filling
    idle = used - callers - kept - filling - locked - cached - read
    assert not idle or state.retired, f"nobody has device pages {sorted(idle)}"
    parts = [callers | kept, filling, locked | read, cached]
    free = everything - used | idle
    assert sum(map(len, parts)) + len(free) == len(everything), "a page in two states"
    return Walked(
        len(everything),
        _states(free=free, owned=parts[0], in_flight=filling, locked=parts[2], cached=cached),
        _pinned(nodes, lambda node: node.device_pages),
        _longest(everything - used),
    )


def walk_host(cache: hc.HiCache) -> Walked:
    """in_flight: saves not taken in fill them. Nobody owns host pages."""
    state, nodes = cache._state, list(cache.tree.nodes())
    everything = set(range(cache.host_pool.total_pages))
    filling = {page for save in state.saves for page in save.host_pages.tolist()}
    locked, cached = _by_lock(nodes, lambda node: node.host_pages)
    current, void = _loads(cache)
    read = {page for load in void for page in load.host_pages.tolist()}
    read |= {page for load in current for page in load.condemned.tolist()}
    idle = _idle_host_pages(cache) - read
    free = everything - filling - locked - cached - read - idle
    assert not filling & (locked | cached) and not read & (locked | cached), "in two states"
    return Walked(
        len(everything),
        _states(free=free | idle, in_flight=filling, locked=locked | read, cached=cached),
        _pinned(nodes, lambda node: node.host_pages),
        _longest(free),
    )


def _states(**pages: set[int]) -> dict[str, int]:
    names = ("free", "cached", "locked", "in_flight", "owned")
    return {name: len(pages.get(name, ())) for name in names}


def _loads(cache: hc.HiCache):
    """Loads in flight of the tree, and those that invalidate made void."""
    loads = list(cache._state.loads)
    mine = [load for load in loads if load.tree is cache.tree]
    return mine, [load for load in loads if load.tree is not cache.tree]


def _idle_host_pages(cache: hc.HiCache) -> set[int]:
    state, idle = cache._state, set()
    for tree, retired in state.retired.items():
        loads = [load for load in state.loads if load.tree is tree]
        idle |= set(retired.pages_in_use(loads)[1].tolist())
    return idle


def _by_lock(nodes: list[Node], pages) -> tuple[set[int], set[int]]:
    """Pages of nodes that are in use, and of those that eviction may take."""
    locked = {page for node in nodes if _in_use(node) for page in pages(node).tolist()}
    cached = {page for node in nodes if not _in_use(node) for page in pages(node).tolist()}
    return locked, cached


def _in_use(node: Node) -> bool:
    return node.lock_ref > 0


def _pinned(nodes: list[Node], pages) -> int:
    return sum(len(pages(node)) for node in nodes if node.pin_ref)


def _longest(pages: set[int]) -> int:
    """Pages of the longest run of neighbours."""
    if not pages:
        return 0
    ordered = np.array(sorted(pages))
    runs = np.split(ordered, np.flatnonzero(np.diff(ordered) != 1) + 1)
    return max(map(len, runs))
