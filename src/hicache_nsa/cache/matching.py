"""match_prefix: find the path, say what of it counts."""

from __future__ import annotations

from hicache_nsa._core import TokenSpan, untrack
from hicache_nsa.cache.handles import PrefixMatch
from hicache_nsa.cache.losses import count_match
from hicache_nsa.cache.saving import save_due
from hicache_nsa.cache.state import CacheState
from hicache_nsa.plan import cached_prefix


def match_prefix(
    state: CacheState, tokens: TokenSpan, namespace: bytes, count: bool
) -> PrefixMatch:
    """The usable prefix of ``tokens``. With ``count``, the matched part counts as used: a node
    that matches in part is split, so that its rest ages by itself.
    """
    tree, size = state.tree, state.page_size
    path, end = tree.find(tokens, namespace)
    node = path[-1] if path else None
    if count and node is not None:
        if end < node.end:
            node = path[-1] = tree.split(node, end)
        state.uses.note(tree.clock + 1)
        tree.touch(path, hit=True)
        if state.write_policy.at_match:
            save_due(state, path)
            path = node.path()  # a save that has room for a part of a node splits it
    device_pages, host_pages, loading = cached_prefix(path, end, size)
    device_tokens, host_tokens = len(device_pages) * size, len(host_pages) * size
    if count:
        count_match(state, tokens, namespace, node, device_tokens, host_tokens)
    match = PrefixMatch(
        device_tokens,
        host_tokens,
        0,
        device_pages,
        host_pages,
        (len(host_pages) - loading) * size,
        node,
        state.epoch,
    )
    untrack(match)  # callers may keep many; it is part of no cycle
    return match
