"""The contract of ``HiCache``, written down with dictionaries: what must be cached where.

A *prefix* is a tuple ``(namespace, page, page, ...)``: page is a small number that stands for the
tokens of one page. ``ReferenceCache.cached`` says of each prefix in which tier its last page lies.
Nothing here knows how the implementation keeps that.

Each method is told what a call was given and what it returned, works out what it should have
returned, and compares. Where the contract leaves a choice (which leaf is evicted) it reads from the
``Trace`` what was done, requires that it was allowed, and goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from contract_loads import Loads
from contract_values import CallerPage, Save, require, require_equal


class ReferenceCache(Loads):
    """See the module: here is what takes in copies, and what flushes."""

    def poll(self, limit: int | None = None, low_water: int | None = None) -> int:
        """Take in finished copies, in the order that the contract fixes; returns how many.

        low_water: device pages that a ``poll()`` keeps free, unless it takes in a failed save.
            None: another call took copies in.
        """
        failed = self.counters["failed_saves"]
        count = 0
        last = len(self.copies)
        known = self.copies[:last]
        if not self.polled:  # any order over the directions would do; this is the cache's
            known.sort(key=lambda copy: isinstance(copy, Save))
        stopped: set[type] = set()
        freed: list[int] = []
        for copy in known:
            if limit is not None and count >= limit:
                break
            if not copy.copy.ended:
                stopped.add(type(copy))
                if self.polled:
                    break
            if type(copy) in stopped:
                continue
            self.copies.remove(copy)
            freed += self._ack_save(copy) if isinstance(copy, Save) else self._ack_load(copy)
            count += 1
        self.trace.expect_device_freed(freed)
        if self.counters["failed_saves"] > failed:
            low_water = None
        if self.demotes:
            before = self.device_free + len(self.leaving)
            self._demote(None)
            after = self.device_free + len(self.leaving)
            most = max(before, low_water or 0)
            require(after <= most, f"poll: {after} pages are free or leaving, not {most} at most")
            if low_water is not None and self.evictable("device"):
                require(after >= low_water, f"poll: {after} pages are or get free, not {low_water}")
        return count

    def wait(self, held: Callable[[str], bool]) -> None:
        """Copies that nothing holds end now, so that what follows depends on no thread."""
        for copy in self.copies:
            if not copy.copy.ended and not held(copy.copy.direction):
                copy.copy.wait()
                self.tags.landed(copy.copy)

    def drain(self) -> None:
        while self.copies:
            self.wait(lambda direction: False)
            require(self.poll() > 0, "drain: nothing can be taken in")

    def reset(self, report: Any) -> None:
        self.drain()
        lost = [prefix for prefix, entry in self.cached.items() if entry.host is None]
        kept = (len(self.cached) - len(lost)) * self.size
        owned = len(self.callers())
        seen = (report.kept_host_tokens, report.dropped_tokens, report.owned_pages)
        require_equal("reset: report", seen, (kept, len(lost) * self.size, owned))
        for prefix in lost:
            self.fates.left(prefix, "flushed")
            self._forget(prefix, "flushed")
        for entry in self.cached.values():
            entry.device = None
            entry.locks = 0
        self._free_all_but_callers()

    def clear(self) -> None:
        self.drain()
        host = self.trace.take_all_host_freed()
        require_equal("clear: host pages freed", sorted(host), sorted(self.host_owner))
        self._forget_all()
        self._free_all_but_callers()

    def invalidate(self) -> None:
        """As ``clear``, but the pages need not be free before somebody wants them. No copy may be
        in flight.
        """
        self.trace.expect_freed_later(self._not_callers(), list(self.host_owner))
        self._forget_all()
        for page in self._not_callers():
            del self.device_owner[page]
        self._begin_epoch()
        self.version += 1

    def _forget_all(self) -> None:
        self.fates.all_left()
        for prefix in list(self.cached):
            self._forget(prefix, "flushed")
        self.host_owner.clear()

    def _not_callers(self) -> list[int]:
        return [p for p, o in self.device_owner.items() if not isinstance(o, CallerPage)]

    def _free_all_but_callers(self) -> None:
        pages = self._not_callers()
        for page in pages:
            del self.device_owner[page]
        self.trace.expect_device_freed(pages)
        self._begin_epoch()

    def _begin_epoch(self) -> None:
        self.leaving = set()
        self.epoch += 1
