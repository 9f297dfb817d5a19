"""What a cache is made of, to look at."""

from __future__ import annotations

from hicache_nsa.cache.state import CacheState
from hicache_nsa.formats import PoolFormat
from hicache_nsa.pools import DevicePool, HostPool
from hicache_nsa.transfer import TransferEngine
from hicache_nsa.tree import RadixTree


class CacheParts:
    """The properties of ``HiCache`` that name its parts."""

    _state: CacheState

    def __repr__(self) -> str:
        pool, host = self._state.ledger.pool, self._state.host
        return (
            f"{type(self).__name__}({self.format.name}, {pool.device}: {pool.num_pages} pages, "
            f"host: {host.num_pages} pages of {self.format.page_bytes} B, {host.layout})"
        )

    @property
    def format(self) -> PoolFormat:
        """The format of every page."""
        return self._state.format

    @property
    def tree(self) -> RadixTree:
        """The radix tree, for reading: nodes with ``value``, ``host_value``, ``lock_ref``."""
        return self._state.tree

    @property
    def device_pool(self) -> DevicePool:
        """The device pages; ``device_pool.buffers`` are the tensors."""
        return self._state.ledger.pool

    @property
    def host_pool(self) -> HostPool:
        """The host pages; ``host_pool.page_view`` shows their bytes."""
        return self._state.host

    @property
    def engine(self) -> TransferEngine:
        """The transfer engine."""
        return self._state.engine
