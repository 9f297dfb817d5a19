"""``KvEventLog``: what became of pages since somebody looked last. Bounded, never silently short.

Where more happened than the log holds, it forgets all of it, and what is taken next is ``Cleared``
and everything that is cached at that moment. So whoever applies what is taken is right afterwards,
always. A new log begins with everything that is cached, too, with no ``Cleared`` before it.
"""

from __future__ import annotations

from hicache_nsa.cache.guard import Guard, atomic
from hicache_nsa.cache.kv_events import (
    Cleared,
    Inventory,
    KvEvent,
    Record,
    RemovedRecord,
    event_of,
    removed_record,
    stored_record,
)
from hicache_nsa.cache.state import CacheState
from hicache_nsa.errors import HiCacheError
from hicache_nsa.tokens import PACKED_KEY
from hicache_nsa.tree import Node, RadixTree
from hicache_nsa.tree.tier import Tier


class EventRecorder:
    """The watcher of a cache's tree: writes down what happens, under the cache's lock.

    capacity: pages that records may name, most. pages: that they name now.
    behind: nothing is written down any more, since the next ``take`` tells all there is.
    overflows: how often there was too much.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.pages = 0
        self.overflows = 0
        self.behind = True
        self._records: list[Record] = []

    def changed(self, tier: Tier, node: Node, old: int, new: int) -> None:
        """See ``Watcher``."""
        if self.behind or old == new or not self._has_room(abs(new - old)):
            return
        make = stored_record if new > old else removed_record
        self._records.append(make(tier.name, node, old, new))

    def removed(self, tier: Tier, packed_keys: bytes) -> None:
        """See ``Watcher``."""
        if not self.behind and packed_keys and self._has_room(len(packed_keys) // PACKED_KEY):
            self._records.append(RemovedRecord(tier.name, packed_keys))

    def cleared(self) -> None:
        """See ``Watcher``. Nothing that was written down before matters any more."""
        self._records = [Cleared()]
        self.pages = 0
        self.behind = False

    def restart(self) -> None:
        """The next ``take`` is ``Cleared`` and everything that is cached then."""
        self.cleared()
        self.behind = True

    def take(self, tree: RadixTree) -> tuple[list[Record], Inventory | None]:
        """All records since the last call, and what comes after them where that is not all."""
        records, self._records = self._records, []
        self.pages = 0
        if not self.behind:
            return records, None
        self.behind = False
        return records, Inventory(tree)

    def _has_room(self, pages: int) -> bool:
        self.pages += pages
        if self.pages <= self.capacity:
            return True
        self.overflows += 1
        self.restart()
        return False


class KvEventLog:
    """What ``HiCache.record_events`` gives. Any thread may call; one consumer takes the events."""

    def __init__(self, guard: Guard, state: CacheState, recorder: EventRecorder) -> None:
        self._guard = guard
        self._state = state
        self._recorder = recorder

    def take(self) -> list[KvEvent]:
        """Everything since the last call, in order; the first call tells what is cached.

        A copy in flight is no event: its pages are stored when its end is taken in. Under the
        cache's lock this takes next to no time, but for a walk over all nodes where all of them are
        told: about a microsecond each, for which other calls wait.

        Raises:
            HiCacheError: the cache or this log is closed, or ``record_events`` was called again.
        """
        records, everything = self._take()
        try:
            if everything is not None:
                records.extend(everything.records())
            return [event_of(record, self._state.page_size) for record in records]
        except BaseException:  # ^C, no memory: what was taken is lost, so all is told anew
            with self._guard.lock:
                self._recorder.restart()
            raise

    @atomic
    def restart(self) -> None:
        """The next ``take`` is ``Cleared`` and everything that is cached then.

        For a consumer that has lost its place.
        """
        self._require_open()
        self._recorder.restart()

    def close(self) -> None:
        """Write nothing down any more. Idempotent, also after the end of the cache."""
        with self._guard.lock:
            if self._state.recorder is self._recorder:
                self._state.recorder = None
                self._state.tree.watch(None)

    @property
    def overflows(self) -> int:
        """How often more happened between two calls of ``take`` than the log holds."""
        return self._recorder.overflows

    @atomic
    def _take(self) -> tuple[list[Record], Inventory | None]:
        self._require_open()
        return self._recorder.take(self._state.tree)

    def _require_open(self) -> None:
        if self._state.recorder is not self._recorder:
            raise HiCacheError(
                "this log of KV events has ended: it was closed, or record_events() was called "
                "again; take events from the log that the last call gave"
            )
