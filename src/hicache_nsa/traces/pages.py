"""Pages as numbers: equal where the tokens of the page, and what comes before it, are equal."""

from __future__ import annotations

from math import gcd

import numpy as np

from hicache_nsa.formats import BufferFormat, PoolFormat
from hicache_nsa.hashing import page_hashes
from hicache_nsa.tokens import PageIds


class Numbers:
    """Numbers 0, 1, 2 ... for values in the order in which they are first seen."""

    def __init__(self) -> None:
        self._known: dict[object, int] = {}

    def of(self, values: list[object]) -> PageIds:
        """The numbers of ``values``, int64."""
        known = self._known
        return np.array([known.setdefault(one, len(known)) for one in values], dtype=np.int64)


class TokenPages:
    """Pages of token ids, by the chained hash that the library itself gives them."""

    def __init__(self, page_size: int) -> None:
        self._format = PoolFormat("trace", page_size, 1, (BufferFormat("tokens", 1, (0,)),))
        self._numbers = Numbers()

    def of(self, tokens: PageIds) -> PageIds:
        """A number for each whole page of ``tokens`` (int64)."""
        return self._numbers.of([row.tobytes() for row in page_hashes(tokens, self._format)])


class BlockPages:
    """Pages of block ids. Page i of a block is a function of (id, i), so that pages share what the
    ids share; a page of several blocks is a function of all of them.

    Blocks and pages are taken in units, of which both have a whole number.
    """

    def __init__(self, block_size: int, page_size: int) -> None:
        self._page_size = page_size
        self._unit = gcd(block_size, page_size)
        self._inside = np.arange(block_size // self._unit, dtype=np.int64)
        self._ids = Numbers()
        units = page_size // self._unit
        self._groups = None if units == 1 else TokenPages(units)

    def of(self, ids: PageIds, tokens: int) -> PageIds:
        """A number for each whole page of a prompt of ``tokens`` in blocks ``ids``."""
        numbers = self._ids.of(ids.tolist())
        units = (numbers[:, None] * len(self._inside) + self._inside).ravel()
        if self._groups is not None:
            units = self._groups.of(units)
        pages: PageIds = units[: tokens // self._page_size].copy()
        return pages
