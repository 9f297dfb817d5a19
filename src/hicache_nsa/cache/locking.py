"""lock and unlock: which prefixes must not be evicted."""

from __future__ import annotations

from hicache_nsa.cache.copies import drop_user
from hicache_nsa.cache.deferred import free_kept
from hicache_nsa.cache.handles import LockHandle, PrefixMatch
from hicache_nsa.cache.state import CacheState
from hicache_nsa.plan import cached_prefix, common_pages
from hicache_nsa.streams import Stream
from hicache_nsa.tree import Node


def require_match(state: CacheState, match: PrefixMatch) -> None:
    """Refuse what is no match, foreign, or from before a flush."""
    if not isinstance(match, PrefixMatch):
        raise TypeError(f"expected a PrefixMatch, got {type(match).__name__}")
    state.epoch.require_current(match._epoch, "match")


def require_handle(state: CacheState, handle: LockHandle) -> None:
    """Refuse what is no handle, foreign, from before a flush, or unlocked."""
    if not isinstance(handle, LockHandle):
        raise TypeError(f"expected a handle, got {type(handle).__name__}")
    state.epoch.require_current(handle._epoch, "handle")
    if handle._released:
        raise ValueError(f"{handle} was unlocked already")


def lock_match(state: CacheState, match: PrefixMatch) -> LockHandle:
    """Lock what is left of ``match``; its last node is split where the match ends inside it."""
    node = state.tree.cut(match._node, match.tokens)
    state.tree.lock(node)
    path = [] if node is None else node.path()
    size = state.page_size
    there = cached_prefix(path, match.tokens, size)
    device, host = len(there.device_pages), len(there.host_pages)
    same = common_pages(path, match.device_pages)
    if same < len(match.device_pages):  # the rest left the device, and may have come back elsewhere
        device, host = same, max(_saved_pages(path, match.tokens, size) - same, 0)
    return LockHandle(node, state.epoch, device * size, host * size)


def unlock_handle(state: CacheState, handle: LockHandle, stream: Stream) -> None:
    """End a lock. The pages count as in use until the work queued on ``stream`` is done."""
    if isinstance(handle, LockHandle) and handle._epoch.is_before(state.epoch):
        handle._released = True
        return
    require_handle(state, handle)
    fence = state.fence(stream)
    handle._released = True
    if handle._node is not None:
        if fence is not None:
            for node in handle._node.path():
                state.ledger.busy(node.device_pages, fence)
        state.tree.unlock(handle._node)
    for load in handle._loads:
        state.ledger.busy(load.device_pages, fence)
        drop_user(state.ledger, load)
    for deferred in handle._deferred:
        state.ledger.busy(deferred.own_pages, fence)
        deferred.handles.discard(handle)
        if deferred.settled and not deferred.handles:
            free_kept(state, deferred, fence)


def _saved_pages(path: list[Node], end: int, page_size: int) -> int:
    """Leading pages of the path, up to position ``end``, that have a host copy."""
    saved = 0
    for node in path:
        pages = (min(node.end, end) - node.start) // page_size
        saved += min(len(node.host_pages), pages)
        if len(node.host_pages) < pages:
            break
    return saved
