"""lock and unlock: which prefixes must not be evicted."""

from __future__ import annotations

from hicache_nsa.cache.handles import LockHandle, PrefixMatch
from hicache_nsa.cache.inserting import release_kept
from hicache_nsa.cache.state import CacheState
from hicache_nsa.plan import cached_prefix
from hicache_nsa.streams import Stream


def require_usable(state: CacheState, held: PrefixMatch | LockHandle) -> None:
    """Refuse what is foreign, from before a flush, or a handle that was unlocked."""
    if not isinstance(held, (PrefixMatch, LockHandle)):
        raise TypeError(f"expected a PrefixMatch or a handle, got {type(held).__name__}")
    what = "match" if isinstance(held, PrefixMatch) else "handle"
    state.epoch.require_current(held._epoch, what)
    if isinstance(held, LockHandle) and held._released:
        raise ValueError(f"{held} was unlocked already")


def lock_match(state: CacheState, match: PrefixMatch) -> LockHandle:
    """Lock what is left of ``match``; its last node is split where the match ends inside it."""
    node = state.tree.cut(match._node, match.tokens)
    state.tree.lock(node)
    path = [] if node is None else node.path()
    there = cached_prefix(path, match.tokens, state.page_size)
    device_tokens = len(there.device_pages) * state.page_size
    return LockHandle(node, state.epoch, device_tokens, len(there.host_pages) * state.page_size)


def unlock_handle(state: CacheState, handle: LockHandle, stream: Stream) -> None:
    """End a lock. The pages count as in use until the work queued on ``stream`` is done."""
    if not isinstance(handle, LockHandle):
        raise TypeError(f"expected a handle, got {type(handle).__name__}")
    if handle._epoch.cache_id is state.epoch.cache_id and handle._epoch is not state.epoch:
        handle._released = True
        return
    require_usable(state, handle)
    fence = state.fence(stream)
    handle._released = True
    if handle._node is not None:
        if fence is not None:
            for node in handle._node.path():
                state.ledger.busy(node.device_pages, fence)
        state.tree.unlock(handle._node)
    for record in handle._deferred:
        record.handles.discard(handle)
        if record.settled and not record.handles:
            release_kept(state, record, fence)
