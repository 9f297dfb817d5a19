"""``Pool``: hands out the page ids of one tier."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from hicache_nsa import _core
from hicache_nsa.errors import OutOfPages, native_check
from hicache_nsa.formats import PoolFormat
from hicache_nsa.formats.checks import count_of
from hicache_nsa.tokens import PageIds, int64_array, page_ids

MAX_PAGES = (1 << 32) - 2  # the page allocator keeps 32-bit ids


def native_format(format: PoolFormat) -> _core.PoolFormat:
    """``format`` as the C++ core takes it."""
    buffers = [(b.name, b.page_bytes, list(b.layers)) for b in format.buffers]
    return _core.PoolFormat(format.page_size, format.num_layers, buffers)


def page_count(pages: Any, name: str) -> int:
    """A number of pages, 0 (no such tier) included."""
    return count_of(pages, name, most=MAX_PAGES)


class Pool:
    """Hands out page ids of one tier. Not thread-safe by itself: ``HiCache`` holds its lock."""

    def __init__(self, tier: str, num_pages: int, reserved: Iterable[int] = ()) -> None:
        self.tier = tier
        self.num_pages = num_pages
        known = reserved if isinstance(reserved, np.ndarray) else list(reserved)
        ids = np.unique(page_ids(known, num_pages, "reserved pages"))
        self._allocator = _core.PageAllocator(num_pages, ids)

    @property
    def total_pages(self) -> int:
        """Pages that can be handed out: all but the reserved ones."""
        return self._allocator.total_pages

    @property
    def free_pages(self) -> int:
        """Pages that ``allocate`` can hand out now."""
        return self._allocator.free_pages

    @property
    def free_extents(self) -> int:
        """Runs of neighbouring pages that the free pages form."""
        return self._allocator.num_extents

    @property
    def largest_free_extent(self) -> int:
        """Pages of the longest of them, 0 when none is free."""
        return self._allocator.largest_extent

    def allocate(self, num_pages: int) -> PageIds:
        """``num_pages`` page ids (int64, ascending), neighbours where possible.

        Raises:
            OutOfPages: fewer are free; nothing changed.
        """
        pages = self._allocator.allocate(num_pages)
        if pages is None:
            raise OutOfPages(
                f"{num_pages} {self.tier} pages wanted, {self.free_pages} of "
                f"{self.total_pages} are free"
            )
        return pages

    def free(self, pages: Any) -> None:
        """Give pages back. A double, foreign or repeated id: ``ValueError``, state unchanged."""
        self._allocator.free(int64_array(pages, "pages"))

    def check(self) -> None:
        """Raise ``InvariantError`` if the allocator's books don't balance."""
        native_check(self._allocator)
