"""The requests of a trace through a real ``HiCache``: real pages, copies, every byte looked at."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from hicache_nsa import HiCache, formats
from hicache_nsa.hashing import page_hashes
from hicache_nsa.tokens import concat_pages

PAGE = 4
FORMAT = formats.mha(2, 1, 4, dtype="fp8", page_size=PAGE)


def hits_with_bytes(
    prompts: Sequence[Sequence[int]],
    *,
    device_pages: int,
    host_pages: int,
    policy: str,
    write_policy: str,
    flush_at: Collection[int] = (),
) -> list[tuple[int, int]]:
    """(tokens from the device, from host) of each prompt. A device smaller than the longest prompt
    has what is missing beside it, and gives it back after each request.
    """
    longest = max(len(prompt) // PAGE for prompt in prompts)
    found = []
    with HiCache(
        FORMAT,
        device_pages=max(device_pages, longest),
        host_pages=host_pages,
        eviction_policy=policy,
        write_policy=write_policy,
    ) as cache:
        buffers = [buffer for layers in cache.device_pool.buffers.values() for buffer in layers]
        for number, prompt in enumerate(prompts, start=1):
            found.append(_serve(cache, np.array(prompt, dtype=np.int64), buffers))
            device = cache.stats().device
            cached = device.total_pages - device.free_pages
            if cached > device_pages:
                cache.evict_device((cached - device_pages) * PAGE)
            cache.drain()
            if number in flush_at:
                cache.reset()
        cache.check()
    return found


def _serve(cache: HiCache, tokens: np.ndarray, buffers: Sequence[np.ndarray]) -> tuple[int, int]:
    rows = page_hashes(tokens, FORMAT)[:, : FORMAT.buffers[0].page_bytes]
    match = cache.match_prefix(tokens)
    handle = cache.lock(match)
    load = cache.load_back(match)
    cache.drain()
    if load is None and match.host_tokens:  # write back: what was in the way is saved now
        load = cache.load_back(match)
        cache.drain()
    loaded = match.device_pages[:0] if load is None else load.pages
    cached = concat_pages([match.device_pages, loaded])
    for buffer in buffers:
        assert np.array_equal(buffer[cached], rows[: len(cached)])
    new = cache.allocate(len(rows) - len(cached))
    for buffer in buffers:
        buffer[new] = rows[len(cached) :]
    result = cache.insert(tokens, concat_pages([cached, new]), lock=handle)
    cache.drain()
    if load is not None:
        load.release()
    cache.unlock(result.handle)
    return match.device_tokens, len(loaded) * PAGE
