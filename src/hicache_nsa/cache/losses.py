"""What became of pages, told to the history and counted: drops by reason, misses by reason.

- A page is dropped when it leaves its last tier: *evicted*, *flushed*, or *failed* (a wrong host
  copy; an insert behind a load that failed). Which operation took it is what counts.
- A page of a prompt that is in no tier is missed for the reason that the history has. That of a
  page whose save failed is *failed*, whatever took its device copy afterwards: with its save it
  would have been found.
- From the first page on that the history does not know the rest of a prompt is *cold*: what was
  cached behind it would be known too, as far as it is not forgotten.
- Pages with a load in flight are on host, and found there. Pages of an insert behind such a load
  are in no tier yet: they are missed, for the reason of their last time or as cold ones.
"""

from __future__ import annotations

import numpy as np

from hicache_nsa._core import TokenSpan, namespace_key, page_keys
from hicache_nsa.cache.copies import Save
from hicache_nsa.cache.insertion import Insertion
from hicache_nsa.cache.state import CacheState
from hicache_nsa.tokens import PACKED_KEY, UINT64, PageIds
from hicache_nsa.tree import Node

_NONE_KNOWN = (0, 0, 0)
"""Losses by reason where the first page that is missed is cold already."""


def count_match(
    state: CacheState,
    tokens: TokenSpan,
    namespace: bytes,
    node: Node | None,
    device_tokens: int,
    host_tokens: int,
) -> None:
    """A counted match found so many tokens, which end with ``node``: the rest is missed."""
    counters = state.counters
    requested = len(tokens)
    counters.requested_tokens += requested
    counters.matched_device_tokens += device_tokens
    counters.found_host_tokens += host_tokens
    found = device_tokens + host_tokens
    missed = requested - found
    if not missed:
        return
    size = state.tree.page_size
    partial = missed % size
    counters.missed_partial_tokens += partial
    if missed == partial:
        return
    cold = missed - partial
    above = namespace_key(namespace) if node is None else node.packed_keys
    losses = state.history.losses(tokens, found, size, above)
    if losses != _NONE_KNOWN:
        evicted, flushed, failed = losses
        counters.missed_evicted_tokens += evicted * size
        counters.missed_flushed_tokens += flushed * size
        counters.missed_failed_tokens += failed * size
        cold -= (evicted + flushed + failed) * size
    counters.missed_cold_tokens += cold


def drop_evicted(state: CacheState, keys: bytes) -> None:
    """Eviction took the pages with these packed keys from their last tier."""
    if keys:
        state.history.evict(keys)
        state.counters.drop_evicted(_tokens(state, keys))


def drop_flushed(state: CacheState, keys: bytes) -> int:
    """A flush that keeps other pages took these; their tokens."""
    tokens = _tokens(state, keys)
    state.history.lose(keys)
    state.counters.drop_flushed(tokens)
    return tokens


def drop_all(state: CacheState) -> None:
    """A flush takes every page of the tree: O(1)."""
    state.history.flush()
    state.counters.drop_flushed(state.tree.tokens)


def drop_corrupt_pages(state: CacheState, keys: bytes) -> None:
    """These were wrong on host, or lay below such a page, and were nowhere else."""
    state.history.fail(keys)
    state.counters.drop_failed(_tokens(state, keys))


def drop_never_came(state: CacheState, insertion: Insertion, own: PageIds) -> None:
    """The load before an insert failed: its pages with the indices ``own`` are lost."""
    size = state.page_size
    keys = page_keys(insertion.tokens, size, namespace_key(insertion.namespace))
    state.history.never_came(np.frombuffer(keys, dtype=UINT64)[own].tobytes())
    state.counters.drop_failed(len(own) * size)


def note_failed_save(state: CacheState, save: Save) -> None:
    """What of it has no host copy is lost with its device copy, by this failure."""
    size, host = save.page_size, save.tree.host
    for node in save.nodes():
        first = max((save.start - node.start) // size, host.count(node))
        last = (min(node.end, save.end) - node.start) // size
        state.history.save_failed(node.packed_keys[first * PACKED_KEY : last * PACKED_KEY])


def note_saved(state: CacheState, node: Node, pages: int) -> None:
    """The last ``pages`` of the node's host copies have come."""
    end = state.tree.host.count(node) * PACKED_KEY
    state.history.saved(node.packed_keys[end - pages * PACKED_KEY : end])


def _tokens(state: CacheState, keys: bytes) -> int:
    return len(keys) // PACKED_KEY * state.page_size
