"""Inserts: duplicates, adopted pages, those behind a load in flight; and handles."""

from __future__ import annotations

from typing import Any

from contract_room import Room
from contract_values import (
    Cached,
    CallerPage,
    Deferred,
    Load,
    Lock,
    Prefix,
    chain,
    require,
    require_equal,
)
from page_tags import tag_of


class Inserts(Room):
    """insert and unlock."""

    def insert_refused(self, prefix: Prefix, given: list[int]) -> set[str]:
        """Names of the errors that an insert of these pages may raise; none: it has to work."""
        errors = set()
        prefixes = chain(prefix)
        used = given[: len(prefixes)]
        if len(used) < len(prefixes) or len(set(used)) < len(used):
            errors.add("ValueError")
        for part, page in zip(prefixes, used, strict=False):
            owner = self.device_owner.get(page)
            if isinstance(owner, CallerPage):
                if owner.version != self.version:
                    errors.add("StaleHandleError")
            elif isinstance(owner, (Load, Deferred)):
                if not owner.owns(part, page):
                    errors.add("ValueError")
            elif owner != part:  # free, or cached at another place
                errors.add("ValueError")
        return errors

    def insert(
        self, prefix: Prefix, given: list[int], locked: bool, old: Lock | None, result: Any
    ) -> Lock | None:
        prefixes = chain(prefix)
        given = given[: len(prefixes)]
        device = self.pages("device", prefixes)
        waiting: list[Load | Deferred] = []
        upto = len(given)
        for index, page in enumerate(given):
            owner = self.device_owner[page]
            if isinstance(owner, (Load, Deferred)):
                if owner.landed and index < len(device):
                    continue
                upto = min(upto, index)
                if owner not in waiting:
                    waiting.append(owner)
        upto = max(upto, len(device))
        use = device + given[len(device) :]
        callers = [isinstance(self.device_owner[page], CallerPage) for page in given]
        duplicates = [p for p, mine in zip(given[: len(device)], callers, strict=False) if mine]
        own = {prefixes[i]: given[i] for i in range(upto, len(given)) if callers[i]}
        taken = [i for i in range(len(device), upto) if callers[i]]
        inserted = (len(taken) + len(own)) * self.size
        total = len(given) * self.size
        require_equal("insert: pages", result.pages.tolist(), use)
        require_equal("insert: inserted_tokens", result.inserted_tokens, inserted)
        require_equal("insert: duplicate_tokens", result.duplicate_tokens, total - inserted)
        self.counters["inserted_tokens"] += inserted
        self.counters["duplicate_tokens"] += total - inserted
        for index in taken:
            self._adopt(prefixes[index], given[index])
        self._used(prefix)
        self._save_path(prefix)
        freed = list(duplicates)
        for page in duplicates:
            del self.device_owner[page]
        lock = self._lock_inserted(prefix, result) if locked else None
        require_equal("insert: a handle", result.handle is not None, locked)
        if upto < len(given):
            freed += self._defer(prefix, own, waiting, lock)
        self.trace.expect_device_freed(freed)
        if old is not None:
            self.unlock(old)
        return lock

    def _adopt(self, prefix: Prefix, page: int) -> None:
        self.tags.require_device([page], [tag_of(prefix, self.version)])
        self.device_owner[page] = prefix
        if prefix not in self.cached:
            self.fates.entered(prefix)
        entry = self.cached.setdefault(prefix, Cached())
        require(entry.device is None, "a second device page for", prefix)
        entry.device = page

    def _lock_inserted(self, prefix: Prefix, result: Any) -> Lock:
        prefixes = self.there(prefix)
        device = len(self.pages("device", prefixes))
        seen = (result.handle.device_tokens, result.handle.host_tokens)
        expected = (device * self.size, (len(prefixes) - device) * self.size)
        require_equal("insert: what the handle protects", seen, expected)
        lock = Lock(prefixes[-1] if prefixes else None, self.epoch)
        self._lock(lock.prefix)
        return lock

    def _defer(
        self,
        prefix: Prefix,
        own: dict[Prefix, int],
        waiting: list[Load | Deferred],
        lock: Lock | None,
    ) -> list[int]:
        """The rest waits for loads in flight; returns pages that are freed at once."""
        loads: set[Load] = set()
        doomed = False
        for owner in waiting:
            if isinstance(owner, Load):
                loads.add(owner)
                doomed = doomed or owner.acked
                owner.inserted_behind = True
                if lock is not None:
                    owner.users += 1
                    lock.loads.append(owner)
            else:
                loads |= owner.loads
                doomed = doomed or owner.settled
                if lock is not None:
                    owner.handles.add(lock)
                    lock.deferred.append(owner)
        if not own:
            return []
        deferred = Deferred(prefix, own, loads)
        for page in own.values():
            self.device_owner[page] = deferred
        if lock is not None:
            deferred.handles.add(lock)
            lock.deferred.append(deferred)
        if doomed:
            return self._drop_deferred(deferred)
        for load in loads:
            load.waiting.append(deferred)
        return []

    def _drop_deferred(self, deferred: Deferred) -> list[int]:
        deferred.settled = True
        self._dropped("failed", len(deferred.own))
        for part in deferred.own:
            self.fates.never_came(part)
        deferred.kept = list(deferred.own.values())
        return [] if deferred.handles else self._give_up(deferred)

    def _land_deferred(self, deferred: Deferred) -> list[int]:
        """The loads before it are in: its pages go into the tree."""
        prefixes = chain(deferred.prefix)
        device = self.pages("device", prefixes)
        if any(part not in deferred.own for part in prefixes[len(device) :]):
            return self._drop_deferred(deferred)
        deferred.settled = deferred.landed = True
        there = set(prefixes[: len(device)])
        deferred.kept = [page for part, page in deferred.own.items() if part in there]
        for part, page in deferred.own.items():
            if part not in there:
                self._adopt(part, page)
        self._used(deferred.prefix)
        self._save_path(deferred.prefix)
        for lock in deferred.handles:
            self._lock(deferred.prefix)
            self._unlock(lock.prefix)
            lock.prefix = deferred.prefix
        return [] if deferred.handles else self._give_up(deferred)

    def unlock(self, lock: Lock) -> None:
        if lock.epoch != self.epoch:
            return
        lock.released = True
        self._unlock(lock.prefix)
        freed = []
        for load in lock.loads:
            freed += self._drop_user(load)
        for deferred in lock.deferred:
            deferred.handles.discard(lock)
            if deferred.settled and not deferred.handles:
                freed += self._give_up(deferred)
        self.trace.expect_device_freed(freed)

    def _drop_user(self, load: Load) -> list[int]:
        load.users -= 1
        require(load.users >= 0, "a load has fewer than no users")
        return self._free_surplus(load) if load.users == 0 and load.acked else []

    def _free_surplus(self, load: Load) -> list[int]:
        freed, load.surplus = load.surplus, []
        for page in freed:
            del self.device_owner[page]
        return freed

    def _give_up(self, deferred: Deferred) -> list[int]:
        freed, deferred.kept = deferred.kept, []
        for page in freed:
            del self.device_owner[page]
        return freed
