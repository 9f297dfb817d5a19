"""Matches, locks on them, and loads back: planned, joined, landed, failed."""

from __future__ import annotations

from typing import Any

from contract_inserts import Inserts
from contract_values import H2D, Load, Loading, Lock, Match, Prefix, chain, require, require_equal
from page_tags import tag_of


class Loads(Inserts):
    """match, lock, load_back and release."""

    def match(self, prefix: Prefix, count: bool, result: Any, rest: int = 0) -> Match:
        """rest: tokens behind the last page of ``prefix``."""
        if count:
            for part in self.there(prefix):
                self.cached[part].hits += 1
            self._used(prefix)
            if self.write_policy == "write_through_selective":
                self._save_path(prefix)
        prefixes = self.there(prefix)
        device = self.pages("device", prefixes)
        host = self.pages("host", prefixes)[len(device) :]
        loading = sum(self.cached[p].loading is not None for p in prefixes[len(device) :])
        require_equal("match: device pages", result.device_pages.tolist(), device)
        require_equal("match: host pages", result.host_pages.tolist(), host)
        tokens = (result.device_tokens, result.host_tokens, result.storage_tokens, result.tokens)
        size = self.size
        expected = (len(device) * size, len(host) * size, 0, len(prefixes) * size)
        require_equal("match: tokens by tier", tokens, expected)
        require_equal("match: load_tokens", result.load_tokens, (len(host) - loading) * size)
        tags = [tag_of(part, self.version) for part in prefixes]
        self.tags.require_device(device, tags[: len(device)])
        self.tags.require_host(host, tags[len(device) :])
        if count:
            self.counters["matched_device_tokens"] += len(device) * size
            self.counters["found_host_tokens"] += len(host) * size
            self._count_missed(prefix, len(prefixes), rest)
        entries = [self.cached[part] for part in prefixes]
        return Match(prefixes, entries, device, len(host), self.epoch)

    def _count_missed(self, prefix: Prefix, found: int, rest: int) -> None:
        """Each page by what became of it, from the first one on of which nothing is known cold."""
        missed = chain(prefix)[found:]
        self.counters["requested_tokens"] += (found + len(missed)) * self.size + rest
        self.counters["missed_partial_tokens"] += rest
        known = True
        for part in missed:
            fate = self.fates.of(part)
            require(fate != "cached", part, "is cached and was not found")
            known = known and fate != "unknown"
            self.counters[f"missed_{fate if known else 'cold'}_tokens"] += self.size

    def _still_there(self, match: Match) -> int:
        """How many pages of the match never left the cache since."""
        count = 0
        for prefix, entry in zip(match.prefixes, match.entries, strict=True):
            if self.cached.get(prefix) is not entry:
                break
            count += 1
        return count

    def _same_device(self, match: Match, prefixes: list[Prefix]) -> int:
        """How many of the match's device pages are still the ones at their places."""
        now = self.pages("device", prefixes)
        same = 0
        for page, then in zip(now, match.device, strict=False):
            if page != then:
                break
            same += 1
        return same

    def lock(self, match: Match, handle: Any) -> Lock:
        seen = (handle.device_tokens, handle.host_tokens)
        answers = []
        for length in range(self._still_there(match), len(match.prefixes) + 1):
            prefixes = match.prefixes[:length]
            if prefixes and prefixes[-1] not in self.cached:
                break
            answers.append(self._protected(match, prefixes))
            if answers[-1] == seen:
                lock = Lock(prefixes[-1] if prefixes else None, self.epoch)
                self._lock(lock.prefix)
                return lock
        require(False, f"lock: the cache protects {seen}, the model one of {answers}")
        raise AssertionError

    def _protected(self, match: Match, prefixes: list[Prefix]) -> tuple[int, int]:
        device = len(self.pages("device", prefixes))
        same = self._same_device(match, prefixes)
        if same < len(match.device):  # the rest may have come back at other places
            device = same
        host = max(len(self.pages("host", prefixes)) - device, 0)
        return device * self.size, host * self.size

    def load_back(self, match: Match, result: Any, max_tokens: int | None = None) -> Loading | None:
        """max_tokens: None where load_back has no such argument, or it was not given."""
        loading = self._loading(match, result, max_tokens)
        if loading is None and match.host_pages:
            self.counters["declined_loads"] += 1
        return loading

    def _loading(self, match: Match, result: Any, max_tokens: int | None) -> Loading | None:
        length = self._still_there(match)
        prefixes = match.prefixes[:length]
        start = len(match.device)
        gone = self._same_device(match, prefixes) < start
        if match.host_pages == 0 or gone or length <= start:
            require(result is None, "load_back: there is nothing to load, the cache gave", result)
            return None
        if max_tokens is not None:
            length = min(length, start + max_tokens // self.size)
        landed, joined, joined_pages, fresh = [], [], [], []
        for part in prefixes[start:length]:
            entry = self.cached[part]
            if entry.device is not None:
                landed.append(entry.device)
            elif entry.loading is not None:
                require(not fresh, "the model: a load in flight below a page that has none")
                page = entry.loading.copy.device_pages[entry.loading.prefixes.index(part)]
                joined_pages.append(page)
                if entry.loading not in joined:
                    joined.append(entry.loading)
            else:
                fresh.append(part)
        on_path = sum(
            self.cached[part].locks == 0 and self.cached[part].device is not None
            for part in prefixes
        )
        room = self.device_free + self.evictable("device") - on_path
        if max_tokens is not None and len(fresh) > room:  # as much as there is room for
            length -= len(fresh) - room
            fresh = fresh[:room]
        count = length - start
        if count <= 0 or count < self.threshold:
            require(result is None, "load_back: below the threshold, the cache gave", result)
            return None
        if self.demotes and result is None and fresh:
            self._lock(prefixes[length - 1])
            self._demote(len(fresh) + int(self.spare * self.device_total))
            self._unlock(prefixes[length - 1])
            require(self.device_free < len(fresh), "load_back gave None, enough pages are free")
            return None
        if len(fresh) > room:
            require(result is None, "load_back: no room, the cache gave", result)
            return None
        require(result is not None, f"load_back gave None, {count} pages fit")
        return self._begin_load(prefixes[:length], landed, joined, joined_pages, fresh, result)

    def _begin_load(
        self,
        prefixes: list[Prefix],
        landed: list[int],
        joined: list[Load],
        joined_pages: list[int],
        fresh: list[Prefix],
        result: Any,
    ) -> Loading:
        self._lock(prefixes[-1])
        pages, loads = landed + joined_pages, list(joined)
        if fresh:
            if self.demotes:
                self._demote(len(fresh) + int(self.spare * self.device_total))
            else:
                self._evict_for("device", len(fresh))
            copy = self.trace.take_submitted(H2D)
            assert copy is not None, "load_back copies nothing"
            require_equal("load: host pages", copy.host_pages, [self.cached[p].host for p in fresh])
            allocated = self.trace.take_allocated("device")
            require_equal("load: device pages", sorted(copy.device_pages), sorted(allocated))
            copy.tags = [tag_of(part, self.version) for part in fresh]
            load = Load(fresh, copy, tuple(joined))
            for part, page in zip(fresh, copy.device_pages, strict=True):
                self._own(page, load)
                self.cached[part].loading = load
            self._lock(prefixes[-1])
            self.copies.append(load)
            loads.append(load)
            pages = pages + copy.device_pages
        for load in loads:
            load.users += 1
        count = len(pages)
        require_equal("load_back: pages", result.pages.tolist(), pages)
        require_equal("load_back: tokens", result.tokens, count * self.size)
        self.counters["joined_loads"] += bool(joined)
        self.counters["matched_host_tokens"] += count * self.size
        return Loading(prefixes[-1], pages, loads, self.epoch)

    def release(self, loading: Loading, cancel: bool = False) -> None:
        if loading.released or loading.epoch != self.epoch:
            loading.released = True
            return
        loading.released = True
        freed = []
        for load in loading.loads:
            freed += self._drop_user(load)
        for load in reversed(loading.loads) if cancel else ():
            self._cancel(load)
        self._unlock(loading.prefix)
        self.trace.expect_device_freed(freed)

    def _cancel(self, load: Load) -> None:
        """Nobody wants it any more: what it brings is not kept."""
        below = any(
            isinstance(copy, Load) and load in copy.above and not copy.failed
            for copy in self.copies
        )
        if not (load.users or load.acked or load.failed or load.inserted_behind or below):
            load.failed = True
            self._not_loading(load)
            self.counters["cancelled_loads"] += 1

    def _ack_load(self, load: Load) -> list[int]:
        load.acked = True
        if load.copy.fails:
            self.counters["failed_loads"] += 1
            load.failed = True
            gone = [load]
            for below in self.copies:
                if isinstance(below, Load) and any(one in gone for one in below.above):
                    gone.append(below)
                    below.failed = True
                    self._not_loading(below)
        self._not_loading(load)
        for part, page in zip(load.prefixes, load.copy.device_pages, strict=True):
            entry = self.cached[part]
            above = self.cached.get(part[:-1])
            whole = len(part) == 2 or (above is not None and above.device is not None)
            if load.failed or entry.device is not None or not whole:
                load.surplus.append(page)
                continue
            entry.device = page
            self.device_owner[page] = part
            self.counters["load_back_tokens"] += self.size
            self.counters["load_back_bytes"] += self.page_bytes
        freed = self._free_surplus(load) if load.users == 0 else []
        for deferred in load.waiting:
            deferred.loads.discard(load)
            if deferred.settled:
                continue
            if load.failed:
                freed += self._drop_deferred(deferred)
            elif not deferred.loads:
                freed += self._land_deferred(deferred)
        self._unlock(load.prefixes[-1])
        return freed

    def _not_loading(self, load: Load) -> None:
        for part in load.prefixes:
            if self.cached[part].loading is load:
                self.cached[part].loading = None
