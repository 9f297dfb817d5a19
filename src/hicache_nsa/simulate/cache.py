"""``SimulatedCache``: ``HiCache`` without bytes."""

from __future__ import annotations

from hicache_nsa._core import PageHistory
from hicache_nsa.cache import HiCache
from hicache_nsa.simulate.no_copy import NoCopyEngine, UnbackedPool


class SimulatedCache(HiCache):
    """A ``HiCache`` whose pages have no memory and whose copies end at once; for simulations."""

    _pool_type = UnbackedPool
    _engine_type = NoCopyEngine

    def remember(self, pages: int) -> None:
        """Never forget what became of a page, of so many: to be called while it is empty."""
        self._state.history = PageHistory(max(pages, 1))
