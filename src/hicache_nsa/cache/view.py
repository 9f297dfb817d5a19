"""``CacheView``: what a cache is made of and what it looks like now. Nothing here changes it."""

from __future__ import annotations

from typing import ClassVar

from hicache_nsa.cache import agreement, audit
from hicache_nsa.cache.guard import Guard, atomic
from hicache_nsa.cache.state import CacheState
from hicache_nsa.formats import PoolFormat
from hicache_nsa.pools import DevicePool, HostPool
from hicache_nsa.timeline import Timeline
from hicache_nsa.transfer import TransferEngine
from hicache_nsa.tree import RadixTree


class CacheView:
    """The part of ``HiCache`` that only looks.

    _pool_type, _engine_type: what the constructor makes; a simulation has its own.
    """

    _pool_type: ClassVar[type[DevicePool]] = DevicePool
    _engine_type: ClassVar[type[TransferEngine]] = TransferEngine
    _guard: Guard
    _state: CacheState

    def __repr__(self) -> str:
        pool, host = self._state.ledger.pool, self._state.host
        return (
            f"HiCache({self.format.name}, {pool.device}: {pool.num_pages} pages, "
            f"host: {host.num_pages} pages of {self.format.page_bytes} B, {host.layout})"
        )

    # -- what it is made of ---------------------------------------------------------------------

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

    @property
    def timeline(self) -> Timeline:
        """What happened when: calls, copies, waits; off until ``timeline.start()``."""
        return self._state.engine.timeline

    # -- what it looks like ---------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether every call is refused: after ``close()``, and in a forked child."""
        return self._guard.unusable is not None

    @atomic
    def check(self) -> None:
        """Walk everything; raise ``InvariantError`` with both sides of a broken equation."""
        audit.check(self._state)

    @atomic
    def digest(self) -> int:
        """64 bits (0 .. 2**64 - 1) of the tree, the owners of pages and the copies in flight.

        Equal after the same calls with the same copies taken in, on every rank; any difference
        in tokens, pages, locks, hits, priorities or order of use gives another one. Takes a
        walk over all nodes and their tokens.
        """
        return agreement.cache_digest(self._state)
