"""Replay a trace of requests through a real ``HiCache``: which pages its copies move.

One request after the other, every copy taken in before the next step, so that the same requests
give the same pages. A page's bytes are its hash: every page that is found on the device or comes
back from host is compared with what was computed for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hicache_nsa.cache import HiCache
from hicache_nsa.errors import require
from hicache_nsa.formats import BufferFormat, PoolFormat
from hicache_nsa.formats.checks import positive_int
from hicache_nsa.hashing import page_hashes
from hicache_nsa.stats import CacheStats
from hicache_nsa.tokens import NO_PAGES, PageIds, concat_pages, token_span
from hicache_nsa.traces.blocks import MOONCAKE_BLOCK, MOST_ID, parse_blocks
from hicache_nsa.traces.lines import json_rows

HASH_BYTES = 16
MOST_HASH = MOST_ID // MOONCAKE_BLOCK - 1  # its tokens fit in int64


class Copied(NamedTuple):
    """The pages of one load or save, in the order of the prefix.

    request: index of the request that it was for. host_pages, device_pages: int64 [n]; the pages at
    one index hold the same bytes.
    """

    request: int
    host_pages: PageIds
    device_pages: PageIds


@dataclass
class Replay:
    """What the requests led to: copies in the order of submission, and the cache's figures."""

    requests: int = 0
    prompt_tokens: int = 0
    loads: list[Copied] = field(default_factory=list)
    saves: list[Copied] = field(default_factory=list)
    stats: CacheStats = field(default_factory=CacheStats)


def read_mooncake(path: str | Path) -> Iterator[PageIds]:
    """The prompts of a trace in Mooncake's format: token ids (int64) made from its block hashes.

    A line has ``input_length`` (tokens) and ``hash_ids`` (one for each 512 tokens, the last block
    may be partial). Equal hashes give equal tokens, different ones differ in every token.

    Raises:
        TraceError: the file can't be read, or a line is broken.
    """
    inside = np.arange(MOONCAKE_BLOCK, dtype=np.int64)
    for place, row in json_rows(path):
        length, ids = parse_blocks(row, place, MOONCAKE_BLOCK, MOST_HASH)
        yield (ids[:, None] * MOONCAKE_BLOCK + inside).ravel()[:length]


def replay(
    requests: Iterable[npt.NDArray[np.int64]],
    *,
    device_pages: int,
    host_pages: int,
    page_size: int = 64,
    spare: float = 0.0,
    limit: int | None = None,
) -> Replay:
    """Serve ``requests`` (token ids of one prompt each) through a cache with these pools.

    spare: see ``HiCache``. limit: stop after so many requests.

    Raises:
        ValueError: a prompt has more whole pages than the device pool, with the numbers.
        InvariantError: a page holds other bytes than were computed for it.
    """
    buffer = BufferFormat("latent", HASH_BYTES, (0,))
    format = PoolFormat("replay", positive_int(page_size, "page_size"), 1, (buffer,))
    result = Replay()
    with HiCache(
        format, device_pages=device_pages, host_pages=host_pages, spare=spare, acks="poll"
    ) as cache:
        for tokens in islice(requests, limit):
            _serve(cache, tokens, result)
        cache.check()
        result.stats = cache.stats()
    return result


def host_runs(copies: Iterable[Copied]) -> npt.NDArray[np.int64]:
    """Pages of each run of neighbouring host pages, over all copies, int64."""
    return _runs(copies, both=False)


def copy_runs(copies: Iterable[Copied]) -> npt.NDArray[np.int64]:
    """The same for runs that are neighbours in both tiers, as the transfer engine merges them."""
    return _runs(copies, both=True)


def _serve(cache: HiCache, tokens: npt.NDArray[np.int64], result: Replay) -> None:
    """One request from match to unlock."""
    hashes = page_hashes(tokens, cache.format)
    if len(hashes) > cache.device_pool.total_pages:
        raise ValueError(
            f"request {result.requests} has {len(hashes)} whole pages, the device pool "
            f"{cache.device_pool.total_pages}; give it as many at least"
        )
    bytes_of = cache.device_pool.buffers["latent"][0]
    match = cache.match_prefix(tokens[:-1])
    lock = cache.lock(match)
    load = cache.load_back(match)
    loaded = NO_PAGES if load is None else load.pages
    cache.drain()
    if load is not None:
        result.loads.append(Copied(result.requests, match.host_pages, loaded))
    cached = concat_pages([match.device_pages, loaded])
    right = np.array_equal(bytes_of[cached], hashes[: len(cached)])
    require(right, f"request {result.requests}: a cached page has other bytes than were computed")
    new = cache.allocate(len(hashes) - len(cached))
    bytes_of[new] = hashes[len(cached) :]
    saved = len(_host_pages(cache, tokens))
    inserted = cache.insert(tokens, concat_pages([cached, new]), lock=lock)
    cache.drain()
    host = _host_pages(cache, tokens)
    if len(host) > saved:
        device = inserted.pages[saved : len(host)]
        result.saves.append(Copied(result.requests, host[saved:], device))
    if load is not None:
        load.release()
    assert inserted.handle is not None
    cache.unlock(inserted.handle)
    result.requests += 1
    result.prompt_tokens += len(tokens)


def _host_pages(cache: HiCache, tokens: npt.NDArray[np.int64]) -> PageIds:
    """The host pages of what is saved of ``tokens``, in their order."""
    path, end = cache.tree.find(token_span(tokens))
    return concat_pages(node.host_pages for node in path)[: end // cache.format.page_size]


def _runs(copies: Iterable[Copied], both: bool) -> npt.NDArray[np.int64]:
    lengths = []
    for _, host, device in copies:
        order = np.argsort(host)
        breaks = np.diff(host[order]) != 1
        if both:
            breaks |= np.diff(device[order]) != 1
        starts = np.flatnonzero(np.concatenate([[len(host) > 0], breaks]))
        lengths.append(np.diff(starts, append=len(host)))
    return concat_pages(lengths)
