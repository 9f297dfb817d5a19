"""A prefix tree that is measured: what the cases need of it, and ours behind that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from hicache_nsa.bench.tree.settings import PAGE_SIZE
from hicache_nsa.cache import HiCache
from hicache_nsa.errors import require_equal
from hicache_nsa.formats import BufferFormat, PoolFormat
from hicache_nsa.tokens import PageIds, concat_pages

PAGE_BYTES = 16  # of a page: the tree is measured, not the copies


class TreeSubject(Protocol):
    """``match`` and ``insert`` are the tree's own methods, so that nothing of ours is timed.

    What they take is made beforehand by ``query`` and ``insertion``, each time from a fresh copy of
    the tokens. Pages of a value are those of the tokens' whole pages, in order.
    """

    match: Callable[..., Any]
    insert: Callable[..., Any]

    def query(self, tokens: PageIds) -> tuple[Any, ...]:
        """Arguments of ``match``."""

    def insertion(self, tokens: PageIds, matched: Any, new: Any) -> tuple[Any, ...]:
        """Arguments of ``insert``: ``matched`` is what ``match`` returned, None for nothing;
        ``new`` are allocated pages for the rest.
        """

    def matched_tokens(self, result: Any) -> int:
        """Tokens that a match found."""

    def allocate(self, pages: int) -> Any:
        """So many new pages, a sequence that can be sliced by page."""

    def evict(self, pages: int) -> int:
        """Evict so many pages in one call; returns the pages evicted."""

    def settle(self) -> None:
        """Wait for copies in flight and take them in."""

    def check(self, cached_pages: int) -> None:
        """Raise ``InvariantError`` unless the tree is sound, has so many pages, and all others are
        free.
        """

    def close(self) -> None:
        """Release everything."""


MakeSubject = Callable[[int, int], TreeSubject]
"""(device pages, host pages) to a fresh, empty subject."""


class HiCacheSubject:
    """``HiCache`` on the CPU with pages of PAGE_BYTES."""

    def __init__(self, pages: int, host_pages: int = 0) -> None:
        buffer = BufferFormat("opaque", PAGE_BYTES, (0,))
        format = PoolFormat("bench/tree", PAGE_SIZE, 1, (buffer,))
        self.cache = HiCache(format, device_pages=pages, host_pages=host_pages, workers=1)
        self.match = self.cache.match_prefix
        self.insert = self.cache.insert

    def query(self, tokens: PageIds) -> tuple[Any, ...]:
        """The tokens."""
        return (tokens.copy(),)

    def insertion(self, tokens: PageIds, matched: Any, new: Any) -> tuple[Any, ...]:
        """The tokens and their pages."""
        pages = new if matched is None else concat_pages([matched.device_pages, new])
        return tokens.copy(), pages

    def matched_tokens(self, result: Any) -> int:
        """Of the device; nothing here is on host only."""
        return int(result.device_tokens)

    def allocate(self, pages: int) -> PageIds:
        """Page ids."""
        return self.cache.allocate(pages)

    def evict(self, pages: int) -> int:
        """Of the device."""
        return self.cache.evict_device(pages * PAGE_SIZE) // PAGE_SIZE

    def settle(self) -> None:
        """Saves, where there is a host tier."""
        self.cache.drain()

    def check(self, cached_pages: int) -> None:
        """``HiCache.check()``, and the counts of the device; of the host where it has pages."""
        self.cache.check()
        stats = self.cache.stats()
        device, host = stats.device, stats.host
        require_equal("cached device pages", device.evictable_pages, cached_pages)
        require_equal("free device pages", device.free_pages, device.total_pages - cached_pages)
        if host.total_pages:
            require_equal("saved pages", host.evictable_pages, cached_pages)

    def close(self) -> None:
        """Close the cache."""
        self.cache.close()
        del self.match, self.insert
