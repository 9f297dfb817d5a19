"""Load back: plan it, make room, submit it, and let go of it again."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np

from hicache_nsa.cache.allocating import allocate_device_pages, available_device_pages
from hicache_nsa.cache.copies import Load, drop_user
from hicache_nsa.cache.handles import PrefixMatch
from hicache_nsa.cache.load_back import LoadBack
from hicache_nsa.cache.state import CacheState
from hicache_nsa.plan import LoadPlan, plan_load
from hicache_nsa.streams import Stream
from hicache_nsa.tokens import PageIds
from hicache_nsa.transfer import H2D
from hicache_nsa.tree import Node


def load_back(
    state: CacheState, match: PrefixMatch, release: Callable[[LoadBack, Stream], None]
) -> LoadBack | None:
    """Bring the host part of ``match`` to the device, or join the load that does already.

    None, with nothing changed: there is no host part (any more), it is below the threshold, its
    device part is gone, or there are not enough device pages. Under write back also where pages
    have to be saved first; their save starts.
    """
    tree, size = state.tree, state.page_size
    node = tree.surviving(match._node, match.tokens)
    if node is None or match.host_tokens == 0:
        return None
    path = node.path()
    plan = plan_load(path, match.device_pages, min(node.end, match.tokens), size)
    if plan is None or plan.num_pages == 0 or plan.num_pages * size < state.load_back_threshold:
        return None
    if len(plan.host_pages) > _room(state, path):
        return None
    node = tree.cut(node, plan.end) or node
    loads = cast("tuple[Load, ...]", plan.joined)
    parts: list[PageIds] = [plan.landed, plan.joined_pages]
    tree.lock(node)
    if len(plan.host_pages):
        try:
            load = _submit(state, node, plan, loads)
        except BaseException:
            tree.unlock(node)
            raise
        if load is None:
            tree.unlock(node)
            return None
        loads = (*loads, load)
        parts.append(load.device_pages)
    for used in loads:
        used.users += 1
    state.counters.joined_loads += bool(plan.joined)
    state.counters.matched_host_tokens += plan.num_pages * size
    pages = np.concatenate(parts)
    layers = state.format.num_layers
    stream = None if state.ledger.pool.device == "cpu" else state.stream
    return LoadBack(pages, len(pages) * size, layers, node, loads, state.epoch, release, stream)


def release_load(state: CacheState, load_back: LoadBack, stream: Stream) -> None:
    """The request behind ``load_back`` is over: unlock its path, give up pages nobody needs."""
    fence = state.fence(stream)
    state.ledger.busy(load_back.pages, fence)
    for node in load_back._node.path():
        state.ledger.busy(node.device_pages, fence)
    for load in load_back._loads:
        drop_user(state.ledger, load)
    state.tree.unlock(load_back._node)


def _room(state: CacheState, path: list[Node]) -> int:
    """Device pages that are free or that eviction could free without touching ``path``."""
    tier = state.tree.device
    own = sum(tier.count(node) for node in path if node.lock_ref == 0)
    return available_device_pages(state) - own


def _submit(state: CacheState, node: Node, plan: LoadPlan, above: tuple[Load, ...]) -> Load | None:
    """Allocate device pages and submit the copy; ``node`` is locked by the caller.

    None: the pages that have to make room are being saved first.
    """
    device_pages = allocate_device_pages(state, len(plan.host_pages))
    if device_pages is None:
        return None
    try:
        fences = state.ledger.fences(device_pages)
        ticket = state.engine.submit(H2D, plan.host_pages, device_pages, after=fences)
    except BaseException:
        state.ledger.free(device_pages, None)
        raise
    load = Load(
        state.next_copy(), ticket, state.tree, node, plan.start, device_pages, plan.host_pages,
        state.page_size, above,
    )  # fmt: skip
    state.ledger.set_pending(device_pages, load)
    for covered in load.nodes():
        if covered.load is None:
            covered.load = load
    state.tree.lock(node)
    state.loads.append(load)
    return load
