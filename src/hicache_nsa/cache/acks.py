"""Taking in finished copies: the one place where the end of a copy changes the tree, and where the
host tier takes in pages that have become ready.

A copy of a tree that was set aside changes nothing: see ``retired``.
"""

from __future__ import annotations

import numpy as np

from hicache_nsa.cache.copies import Load, Save, disown_below, free_surplus
from hicache_nsa.cache.corrupt import drop_corrupt, free_condemned
from hicache_nsa.cache.deferred import drop_deferred
from hicache_nsa.cache.demoting import settle_leaving
from hicache_nsa.cache.inserting import insert_deferred
from hicache_nsa.cache.losses import note_failed_save, note_saved
from hicache_nsa.cache.retired import end_load, end_save
from hicache_nsa.cache.state import CacheState
from hicache_nsa.cache.warm_restart import publish
from hicache_nsa.tree import Node, RadixTree


def take_in(
    state: CacheState,
    *,
    limit: int | None = None,
    in_order: bool = False,
    sound: int | None = None,
) -> int:
    """Take in finished copies, each direction in the order of submission; returns how many.

    in_order: one order over both directions, so that the same number taken in means the same
    copies on every rank.
    Also the one place where a host pool grows by what has become ready.
    """
    if state.host.growing:
        state.host.take_in_ready()
    count = 0
    last = state.copies  # copies that an ack starts now are for a later call
    while limit is None or count < limit:
        load = state.loads[0] if state.loads else None
        save = state.saves[0] if state.saves and state.saves[0].number <= last else None
        if in_order and load is not None and save is not None:
            if load.number < save.number:
                save = None
            else:
                load = None
        if load is not None and load.ticket.done():
            load.failed_elsewhere = count == sound
            finish_load(state, state.loads.popleft(), in_order)
        elif save is not None and save.ticket.done():
            save.failed_elsewhere = count == sound
            finish_save(state, state.saves.popleft())
        else:
            break
        count += 1
        if sound is not None and count > sound:
            break
    return count


def finish_save(state: CacheState, save: Save) -> None:
    """Publish the host copies of a save, or give its host pages back."""
    retired = state.retired.get(save.tree)
    if retired is not None:
        end_save(state, retired, save)
        return
    tree = save.tree
    failed = save.error is not None
    if failed:
        note_failed_save(state, save)
    published = 0
    for node in save.nodes():
        if node.save is save:
            node.save = None
        if failed:
            continue
        have = node.start + tree.host.count(node) * save.page_size
        stop = min(node.end, save.end)
        if have == max(node.start, save.start) < stop and _complete(tree, node, save.page_size):
            pages = save.host_pages[save.slice(have, stop)]
            tree.set_host(node, np.concatenate([node.host_pages, pages]))
            publish(state, node, len(pages))
            note_saved(state, node, len(pages))
            published += len(pages)
    state.host.free(save.host_pages[published:])
    state.filling -= len(save.host_pages)
    tree.unlock(save.node)
    settle_leaving(state, save.node)
    state.counters.failed_saves += failed
    state.failed_in_a_row = state.failed_in_a_row + 1 if failed else 0
    state.counters.saved_tokens += published * save.page_size
    state.counters.saved_bytes += published * state.format.page_bytes


def _complete(tree: RadixTree, node: Node, page_size: int) -> bool:
    """Whether the parent's host copy has no gap before ``node``."""
    parent = node.parent
    assert parent is not None
    return tree.host.count(parent) * page_size == parent.end - parent.start


def finish_load(state: CacheState, load: Load, in_order: bool) -> None:
    """Publish the device pages of a load, or make its nodes what they were.

    Host copies that it found wrong leave the tree, see ``corrupt``.
    """
    retired = state.retired.get(load.tree)
    if retired is not None:
        end_load(state, retired, load)
        return
    load.acked = True
    if load.error is not None:
        state.counters.failed_loads += 1
        load.failed = True
        disown_below(state.loads, load)
    taken = np.zeros(len(load.device_pages), dtype=bool)
    for node in load.nodes():
        if node.load is load:
            node.load = None
        if not load.failed:
            _land(load.tree, load, node, taken)
    state.ledger.cache(load.device_pages[taken])
    load.surplus = load.device_pages[~taken]
    if load.users == 0:
        free_surplus(state.ledger, load)
    state.counters.load_back_tokens += int(taken.sum()) * load.page_size
    state.counters.load_back_bytes += int(taken.sum()) * state.format.page_bytes
    for deferred in load.waiting:
        deferred.loads.discard(load)
        if deferred.settled:
            continue
        if load.failed:
            drop_deferred(state, deferred)
        elif not deferred.loads:
            insert_deferred(state, deferred)
    load.waiting.clear()
    free_condemned(state, load)
    if load.error is not None:
        drop_corrupt(state, load, in_order)
    load.tree.unlock(load.node)


def _land(
    tree: RadixTree, load: Load, node: Node, taken: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> None:
    """Extend the node's device pages by those of the load, unless an insert was there first."""
    size = load.page_size
    have = node.start + tree.device.count(node) * size
    stop = min(node.end, load.end)
    parent = node.parent
    assert parent is not None
    whole_above = tree.device.count(parent) * size == parent.end - parent.start
    if load.start <= have < stop and whole_above:
        part = load.slice(have, stop)
        tree.set_device(node, np.concatenate([node.device_pages, load.device_pages[part]]))
        taken[part] = True
