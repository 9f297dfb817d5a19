"""Saves: which pages go to host at an insert or a match, and what their ack changes."""

from __future__ import annotations

from contract_books import Books
from contract_values import D2H, Prefix, Save, require, require_equal
from page_tags import tag_of
from pool_trace import Submitted


class Saves(Books):
    """Write through, at once or from the n-th hit on."""

    def _save_path(self, prefix: Prefix) -> None:
        """Save what of the path is on the device, neither saved nor being saved, and due: from its
        write_threshold-th hit on (write_through: from the first). Without a host tier nothing is.
        """
        if self.write_policy == "write_back" or self.host_total == 0:
            return
        prefixes = self.there(prefix)
        while prefixes and self.cached[prefixes[-1]].hits < self.write_threshold:
            prefixes.pop()
        first = 0
        while first < len(prefixes):
            entry = self.cached[prefixes[first]]
            if entry.host is None and entry.saving is None:
                break
            first += 1
        wanted = prefixes[first : max(first, len(self.pages("device", prefixes)))]
        if not wanted:
            return
        self._lock(prefixes[-1])  # what is on the path makes no room for the path
        room = min(len(wanted), self.host_free + self.evictable("host"))
        copy = self.trace.take_submitted(D2H) if room else None
        count = 0 if copy is None else len(copy.device_pages)
        require_equal("pages that are saved", count, room)
        self.counters["refused_save_tokens"] += (len(wanted) - count) * self.size
        if copy is not None:
            self._evict_for("host", count)
            self._begin_save(wanted[:count], copy)
        self._unlock(prefixes[-1])

    def _begin_save(self, prefixes: list[Prefix], copy: Submitted) -> None:
        pages = [self.cached[part].device for part in prefixes]
        require_equal("save: device pages, parents first", copy.device_pages, pages)
        allocated = self.trace.take_allocated("host")
        require_equal("save: host pages", sorted(copy.host_pages), sorted(allocated))
        copy.tags = [tag_of(part, self.version) for part in prefixes]
        save = Save(prefixes, copy)
        for part, page in zip(prefixes, copy.host_pages, strict=True):
            require(page not in self.host_owner, "host page", page, "has two owners")
            self.host_owner[page] = save
            self.cached[part].saving = save
        self._lock(prefixes[-1])
        self.copies.append(save)

    def _ack_save(self, save: Save) -> list[int]:
        kept = self._kept(save)
        for index, part in enumerate(save.prefixes):
            if save.copy.fails or index < kept:
                self.fates.save_ended(part, save.copy.fails)
        pages = save.copy.host_pages
        for part, page in zip(save.prefixes[:kept], pages[:kept], strict=True):
            self.cached[part].host = page
            self.host_owner[page] = part
        for part in save.prefixes:
            if self.cached[part].saving is save:
                self.cached[part].saving = None
        lost = save.copy.host_pages[kept:]
        for page in lost:
            del self.host_owner[page]
        if lost:
            require_equal("save: host pages given back", self.trace.take_freed("host"), lost)
        self._unlock(save.prefixes[-1])
        self.counters["failed_saves"] += save.copy.fails
        self.counters["saved_tokens"] += kept * self.size
        self.counters["saved_bytes"] += kept * self.page_bytes
        return []

    def _kept(self, save: Save) -> int:
        """How many of its pages are host copies from its ack on: no gap, none twice."""
        kept = 0
        for part in [] if save.copy.fails else save.prefixes:
            above = self.cached.get(part[:-1])
            whole = len(part) == 2 or kept > 0 or (above is not None and above.host is not None)
            if self.cached[part].host is not None or not whole:
                break
            kept += 1
        return kept
