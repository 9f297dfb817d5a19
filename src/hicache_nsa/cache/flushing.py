"""reset, clear, invalidate: what stays and what goes.

No copy is in flight when the first two run; invalidate goes ahead of copies in flight.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hicache_nsa._core import Fence
from hicache_nsa.cache.losses import drop_all, drop_flushed
from hicache_nsa.cache.retired import reclaim_all, retire
from hicache_nsa.cache.state import CacheState
from hicache_nsa.tokens import PageIds, concat_pages
from hicache_nsa.tree.flush import flush_device


@dataclass(frozen=True)
class ResetReport:
    """kept_host_tokens: still match, as host tokens. dropped_tokens: had no reachable host copy.
    owned_pages: device pages that callers still own and have to free.
    """

    kept_host_tokens: int
    dropped_tokens: int
    owned_pages: int


def reset(state: CacheState, fence: Fence | None) -> ResetReport:
    """Device values and locks cleared, host values kept."""
    reclaim_all(state)
    flushed = flush_device(state.tree)
    _free_device(state, flushed.device_pages, fence)
    state.host.free(flushed.host_pages)
    dropped = drop_flushed(state, flushed.dropped_keys)
    state.epoch = state.epoch.next()
    return ResetReport(flushed.kept_host_tokens, dropped, state.ledger.callers)


def clear(state: CacheState, fence: Fence | None) -> None:
    """Both tiers empty. Pages that callers own stay theirs."""
    state.host.renounce()
    reclaim_all(state)
    tree = state.tree
    nodes = list(tree.nodes())
    device = concat_pages(node.device_pages for node in nodes)
    host = concat_pages(node.host_pages for node in nodes)
    drop_all(state)
    tree.device.clear()
    tree.host.clear()
    tree.forget_nodes()
    if tree.watcher is not None:
        tree.watcher.cleared()
    _free_device(state, device, fence)
    state.host.free(host)
    state.epoch = state.epoch.next()


def invalidate(state: CacheState, fence: Fence | None) -> None:
    """Set the tree aside, in a time that does not depend on its size; see ``retired``.

    Pages allocated before can't be inserted any more.
    """
    state.host.renounce()
    retire(state, fence)
    state.epoch = state.epoch.next()
    state.version += 1


def _free_device(state: CacheState, pages: PageIds, fence: Fence | None) -> None:
    """Free the tree's pages and those kept for loads and handles, which have ended."""
    pending = np.fromiter(state.ledger.holder, dtype=np.int64, count=len(state.ledger.holder))
    state.ledger.free(np.concatenate([pages, pending]), fence)
