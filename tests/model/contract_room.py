"""Room on the device: evictions, and under write back the saves that they start."""

from __future__ import annotations

import itertools

from contract_saves import Saves
from contract_values import D2H, CallerPage, Save, require, require_equal
from pool_trace import Submitted


class Room(Saves):
    """allocate and evict."""

    def allocate_refused(self, count: int) -> bool:
        """Whether allocate has to raise OutOfPages, with nothing changed."""
        return count - self.device_free > self.evictable("device") + len(self.leaving)

    def allocate(self, count: int, pages: list[int] | None, waited: bool) -> None:
        """pages: None where OutOfPages was raised though it need not have been, see below.
        waited: for saves that it started, and by now all of them are taken in.
        """
        spare = int(self.spare * self.device_total)
        if self.demotes and waited:
            self._demote_waiting()
        elif self.demotes:
            self._demote(max(count + spare - self.device_free - len(self.leaving), 0))
        else:
            self._evict_for("device", count)
        if pages is None:  # they are being saved first, and the caller does not wait
            require(self.demotes, "allocate: OutOfPages, but there are enough")
            require(self.device_free < count, "allocate: OutOfPages, but enough are free")
            return
        require_equal("allocate: pages", sorted(pages), sorted(self.trace.take_allocated("device")))
        require_equal("allocate: how many", len(pages), count)
        for page in pages:
            self._own(page, CallerPage(self.version))

    def evict(self, tier: str, tokens: int, result: int) -> None:
        wanted = -(-tokens // self.size)
        if tier == "device" and self.demotes:
            expected = min(wanted, self.evictable("device"))
            require_equal("evict_device: pages", self._demote(wanted), expected)
            require_equal("evict_device", result, expected * self.size)
            return
        freed = self.trace.take_freed(tier) if wanted else []
        require_equal(f"{tier} pages evicted", len(freed), min(wanted, self.evictable(tier)))
        require_equal(f"evict_{tier}", result, len(freed) * self.size)
        self._evicted(tier, freed)

    def _demote(self, most: int | None) -> int:
        """Follow an eviction that saves first; returns how many pages are free or leaving for it.

        Pages with a host copy are free at once. Others are leaving: saved, withheld until that is
        in. What the host tier has no room for is dropped. most: never more than these.
        """
        leaving = len(self.leaving)
        evictable = self.evictable("device")
        freed = [p for p in self.trace.peek_freed() if isinstance(self.device_owner.get(p), tuple)]
        self.trace.drop_freed(freed)
        was_leaving = [page for page in freed if page in self.leaving]
        for page in was_leaving:
            entry = self.cached[self._prefix(page)]
            require(entry.host is not None, f"page {page} left before its bytes were safe")
        self.leaving -= set(was_leaving)
        self._evicted("device", freed)
        while (copy := self.trace.take_submitted(D2H)) is not None:
            self._follow_save(copy)
        self.see_leaving()
        done = len(freed) - len(was_leaving) + len(self.leaving) + len(was_leaving) - leaving
        if most is not None:
            require(done <= min(most, evictable), f"{done} pages demoted, {most} were asked for")
        return done

    def _demote_waiting(self) -> None:
        """Follow saves and their acks in turn, until all are in."""
        while True:
            ended = next((c for c in self.copies if isinstance(c, Save) and c.copy.ended), None)
            if ended is not None:
                lost = ended.copy.host_pages[self._kept(ended) :]
                if not lost or lost == self.trace.peek_host_freed():
                    self.copies.remove(ended)
                    self._ack_save(ended)
                    continue
            copy = self.trace.take_submitted(D2H)
            if copy is None:
                require(ended is None, "a save that ended is not taken in")
                break
            self._follow_save(copy)
            copy.wait()
            self.tags.landed(copy)
        self._demote(None)

    def _follow_save(self, copy: Submitted) -> None:
        """A save that eviction started: a run of a path, nothing missing above it."""
        prefixes = [self._prefix(page) for page in copy.device_pages]
        for above, below in itertools.pairwise(prefixes):
            require_equal("a save runs down one path", below[:-1], above)
        first = prefixes[0]
        if len(first) > 2:
            above_first = self.cached[first[:-1]]
            safe = above_first.host is not None or above_first.saving is not None
            require(safe, "a save leaves a gap above", first)
        self._lock(prefixes[-1])
        freed = self.trace.take_freed("host")
        missing = len(prefixes) - self.host_free
        most = max(missing + int(self.spare * self.host_total), 0)
        require(missing <= len(freed) <= most, f"{len(freed)} host pages evicted for {missing}")
        self._evicted("host", freed)
        self._begin_save(prefixes, copy)
        self._unlock(prefixes[-1])

    def see_leaving(self) -> None:
        """Which pages leave is the cache's choice; that they may is the model's business."""
        self.leaving = self.observed_leaving()
        for page in self.leaving:
            prefix = self._prefix(page)
            entry = self.cached[prefix]
            require(entry.locks > 0, f"page {page} is leaving, and no save of it in flight")
        saves = any(isinstance(copy, Save) for copy in self.copies)
        require(saves or not self.leaving, "pages leave, and no save is in flight")
