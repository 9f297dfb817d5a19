"""``CacheRecording``: the part of ``HiCache`` that writes down KV events."""

from __future__ import annotations

from hicache_nsa.cache.event_log import EventRecorder, KvEventLog
from hicache_nsa.cache.guard import atomic
from hicache_nsa.cache.view import CacheView
from hicache_nsa.formats.checks import positive_int


class CacheRecording(CacheView):
    """See the module."""

    @atomic
    def record_events(self, capacity: int = 65_536) -> KvEventLog:
        """Write down from now on which pages come into a tier and leave it; see docs/events.md.

        The first ``take`` of the log tells what is cached. A log that an earlier call gave ends.

        capacity: pages that events may name between two calls of ``take``; about 8 bytes and 4 a
            token are kept of each. More than that, and the next ``take`` tells everything anew.
        """
        recorder = EventRecorder(positive_int(capacity, "capacity"))
        self._state.recorder = recorder
        self._state.tree.watch(recorder)
        return KvEventLog(self._guard, self._state, recorder)
