"""Start the save of what a path has on the device and not yet on host."""

from __future__ import annotations

from collections.abc import Sequence

from hicache_nsa.cache.copies import Save
from hicache_nsa.cache.reclaim import evict_host_pages, pages_to_evict
from hicache_nsa.cache.retired import idle_host_pages, reclaim_host
from hicache_nsa.cache.state import CacheState
from hicache_nsa.cache.unstarted import Unstarted
from hicache_nsa.plan import plan_save
from hicache_nsa.transfer import D2H
from hicache_nsa.tree import Node


def save_due(state: CacheState, path: Sequence[Node]) -> None:
    """Start the save of what the write policy wants on host by now."""
    node = state.write_policy.due(path)
    if node is not None:
        start_save(state, node)


def start_save(state: CacheState, node: Node) -> Save | None:
    """Save the unsaved tail of the path down to ``node``, as much as the host tier has room for.

    The leading pages are saved when not all fit; room is made by evicting host leaves, never what
    this path or a copy in flight needs. Ordered after the work that still writes the pages.
    A copy that can't be submitted is one that failed: it ends in ``poll``, on all ranks.
    """
    if state.host.num_pages == 0:
        return None  # no host tier: nothing is saved, and nothing is refused
    size = state.page_size
    path = node.path()
    plan = plan_save(path, size)
    wanted = len(plan.device_pages)
    if wanted == 0:
        return None
    tree = state.tree
    tree.lock(node)  # what lies above must not make room for what lies below
    count = min(wanted, state.host.free_pages + tree.host.evictable + idle_host_pages(state))
    evict = pages_to_evict(state.host, count, state.spare)
    evict -= reclaim_host(state, evict)
    if evict > 0:
        evict_host_pages(state, evict)
    state.counters.refused_save_tokens += (wanted - count) * size
    if count == 0:
        tree.unlock(node)
        return None
    device_pages = plan.device_pages[:count]
    host_pages = state.host.allocate(count)
    try:
        fences = state.ledger.fences(device_pages)
        ticket = state.engine.submit(D2H, host_pages, device_pages, after=fences)
    except (MemoryError, RuntimeError) as error:
        ticket = Unstarted(error)
        state.unstarted_saves += 1
    except BaseException:
        state.host.free(host_pages)
        tree.unlock(node)
        raise
    end = plan.start + count * size
    deepest = tree.cut(node, end) or node  # what found no room is not in use
    save = Save(
        state.next_copy(), ticket, tree, deepest, plan.start, device_pages, host_pages, size
    )
    for covered in save.nodes():
        covered.save = save
    tree.lock(deepest)
    tree.unlock(node)
    state.filling += count
    state.saves.append(save)
    return save
