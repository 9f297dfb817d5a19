"""The contract of ``HiCache``, written down with dictionaries: what must be cached where.

A *prefix* is a tuple ``(namespace, page, page, ...)``: page is a small number that stands for the
tokens of one page. ``ReferenceCache.cached`` says of each prefix in which tier its last page lies.
Nothing here knows how the implementation keeps that.

Each method is told what a call was given and what it returned, works out what it should have
returned, and compares. Where the contract leaves a choice (which leaf is evicted) it reads from the
``Trace`` what was done, requires that it was allowed, and goes on from there.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from page_tags import PageTags, tag_of
from pool_trace import Submitted, Trace

Prefix = tuple[int, ...]
D2H, H2D = "d2h", "h2d"


def chain(prefix: Prefix) -> list[Prefix]:
    """Every prefix of ``prefix`` that has a page, the shortest first; itself included."""
    return [prefix[:end] for end in range(2, len(prefix) + 1)]


def require(condition: object, *message: object) -> None:
    """The one way in which the model says that the cache is wrong."""
    if not condition:
        raise AssertionError(" ".join(map(str, message)))


def require_equal(what: str, cache: object, model: object) -> None:
    if cache != model:
        raise AssertionError(f"{what}: the cache has {cache!r}, the model {model!r}")


@dataclass(eq=False)
class Cached:
    """One page of one prefix. device, host: its page ids. locks: users of it or of one below."""

    device: int | None = None
    host: int | None = None
    locks: int = 0
    hits: int = 1
    saving: Save | None = None
    loading: Load | None = None


@dataclass(eq=False)
class Save:
    """Device to host."""

    prefixes: list[Prefix]
    copy: Submitted


@dataclass(eq=False)
class Load:
    """Host to device. above: loads that bring earlier pages. surplus: what the tree didn't take."""

    prefixes: list[Prefix]
    copy: Submitted
    above: tuple[Load, ...]
    users: int = 0
    acked: bool = False
    failed: bool = False
    surplus: list[int] = field(default_factory=list)
    waiting: list[Deferred] = field(default_factory=list)

    @property
    def landed(self) -> bool:
        return self.acked and not self.failed

    @property
    def doomed(self) -> bool:
        """Whether what is computed behind it will be dropped."""
        return self.copy.fails or self.failed or any(load.doomed for load in self.above)

    def owns(self, prefix: Prefix, page: int) -> bool:
        return any(
            mine == prefix and its == page
            for mine, its in zip(self.prefixes, self.copy.device_pages, strict=True)
        )


@dataclass(eq=False)
class Deferred:
    """An insert behind loads in flight. own: the pages that it brought, by prefix."""

    prefix: Prefix
    own: dict[Prefix, int]
    loads: set[Load]
    handles: set[Lock] = field(default_factory=set)
    settled: bool = False
    landed: bool = False
    kept: list[int] = field(default_factory=list)

    @property
    def doomed(self) -> bool:
        return not self.landed and (self.settled or any(load.doomed for load in self.loads))

    def owns(self, prefix: Prefix, page: int) -> bool:
        return self.own.get(prefix) == page


@dataclass(eq=False)
class Lock:
    """What a handle protects: every page of ``prefix`` (None: nothing)."""

    prefix: Prefix | None
    epoch: int
    released: bool = False
    loads: list[Load] = field(default_factory=list)
    deferred: list[Deferred] = field(default_factory=list)


@dataclass(eq=False)
class Match:
    """What a match saw: the entries themselves, so that pages which came back are told apart."""

    prefixes: list[Prefix]
    entries: list[Cached]
    device: list[int]
    host_pages: int
    epoch: int


@dataclass(eq=False)
class Loading:
    """What a LoadBack holds: the path down to ``prefix`` and its loads."""

    prefix: Prefix
    pages: list[int]
    loads: list[Load]
    epoch: int
    released: bool = False


@dataclass(frozen=True)
class CallerPage:
    """A page that a caller owns, allocated at that version of the weights."""

    version: int


class ReferenceCache:
    """See the module. ``size``: tokens a page. ``threshold``: of load_back, in pages."""

    def __init__(
        self,
        *,
        size: int,
        page_bytes: int,
        device_pages: int,
        host_pages: int,
        spare: float,
        threshold: int,
        polled: bool,
        write_policy: str,
        write_threshold: int,
        leaving: Callable[[], set[int]],
        trace: Trace,
        tags: PageTags,
    ) -> None:
        self.size = size
        self.page_bytes = page_bytes
        self.device_total = device_pages
        self.host_total = host_pages
        self.spare = spare
        self.threshold = threshold
        self.polled = polled
        self.write_policy = write_policy
        self.write_threshold = 1 if write_policy == "write_through" else write_threshold
        self.demotes = write_policy == "write_back"
        self.observed_leaving = leaving
        self.leaving: set[int] = set()
        self.trace = trace
        self.tags = tags
        self.cached: dict[Prefix, Cached] = {}
        self.device_owner: dict[int, Prefix | CallerPage | Load | Deferred] = {}
        self.host_owner: dict[int, Prefix | Save] = {}
        self.copies: list[Save | Load] = []
        self.epoch = 0
        self.version = 0
        self.counters: Counter[str] = Counter()

    # -- questions ------------------------------------------------------------------------------

    @property
    def device_free(self) -> int:
        return self.device_total - len(self.device_owner)

    @property
    def host_free(self) -> int:
        return self.host_total - len(self.host_owner)

    def callers(self) -> list[int]:
        return [p for p, owner in self.device_owner.items() if isinstance(owner, CallerPage)]

    def pages(self, tier: str, prefixes: Iterable[Prefix]) -> list[int]:
        """The tier's pages of the leading ``prefixes``, up to the first that has none."""
        pages = []
        for prefix in prefixes:
            entry = self.cached.get(prefix)
            page = None if entry is None else getattr(entry, tier)
            if page is None:
                break
            pages.append(page)
        return pages

    def there(self, prefix: Prefix) -> list[Prefix]:
        """The leading prefixes of ``prefix`` that are cached in some tier."""
        found = []
        for part in chain(prefix):
            if part not in self.cached:
                break
            found.append(part)
        return found

    def evictable(self, tier: str) -> int:
        """How many pages eviction may take now."""
        return sum(
            entry.locks == 0 and getattr(entry, tier) is not None for entry in self.cached.values()
        )

    # -- locks ----------------------------------------------------------------------------------

    def _lock(self, prefix: Prefix | None) -> None:
        for part in chain(prefix or ()):
            self.cached[part].locks += 1

    def _unlock(self, prefix: Prefix | None) -> None:
        for part in chain(prefix or ()):
            entry = self.cached[part]
            entry.locks -= 1
            require(entry.locks >= 0, "more unlocked than locked:", part)

    # -- match ----------------------------------------------------------------------------------

    def match(self, prefix: Prefix, count: bool, result: Any) -> Match:
        if count:
            for part in self.there(prefix):
                self.cached[part].hits += 1
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
        entries = [self.cached[part] for part in prefixes]
        return Match(prefixes, entries, device, len(host), self.epoch)

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

    # -- lock and unlock ------------------------------------------------------------------------

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

    # -- room -----------------------------------------------------------------------------------

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

    def _own(self, page: int, owner: CallerPage | Load) -> None:
        require(page not in self.device_owner, "device page", page, "has two owners")
        self.device_owner[page] = owner

    def _evict_for(self, tier: str, count: int) -> None:
        """Evict what is missing for ``count`` pages, and the spare pages, and no more."""
        free = self.device_free if tier == "device" else self.host_free
        total = self.device_total if tier == "device" else self.host_total
        wanted = max(count + int(self.spare * total) - free, 0) if count else 0
        freed = self.trace.take_freed(tier) if wanted else []
        require_equal(f"{tier} pages evicted", len(freed), min(wanted, self.evictable(tier)))
        self._evicted(tier, freed)

    def _evicted(self, tier: str, pages: list[int]) -> None:
        owners: dict[int, Any] = self.device_owner if tier == "device" else self.host_owner
        for page in pages:
            prefix = owners.pop(page, None)
            require(isinstance(prefix, tuple), f"evicted {tier} page {page} belongs to {prefix}")
            entry = self.cached[prefix]
            require(entry.locks == 0, f"evicted {tier} page {page} is locked: {prefix}")
            setattr(entry, tier, None)
            self.counters[f"evicted_{tier}_tokens"] += self.size
            if entry.device is None and entry.host is None:
                self._forget(prefix)
        if pages:
            self._require_unbroken(tier)

    def _forget(self, prefix: Prefix) -> None:
        del self.cached[prefix]
        self.counters["dropped_tokens"] += self.size

    def _require_unbroken(self, tier: str) -> None:
        """No gap: a page is there only if all pages before it are. So only tails were evicted."""
        for prefix, entry in self.cached.items():
            if len(prefix) > 2 and getattr(entry, tier) is not None:
                above = self.cached.get(prefix[:-1])
                there = above is not None and getattr(above, tier) is not None
                require(there, f"a gap before the {tier} page of {prefix}")

    # -- write back -----------------------------------------------------------------------------

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

    def _prefix(self, page: int) -> Prefix:
        prefix = self.device_owner.get(page)
        if not isinstance(prefix, tuple):
            raise AssertionError(f"device page {page} belongs to {prefix}, not to the tree")
        return prefix

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

    def free(self, pages: list[int]) -> None:
        for page in pages:
            del self.device_owner[page]
        self.trace.expect_device_freed(pages)

    def free_refused(self, pages: list[int]) -> bool:
        mine = all(isinstance(self.device_owner.get(page), CallerPage) for page in pages)
        return not mine or len(set(pages)) < len(pages)

    # -- insert ---------------------------------------------------------------------------------

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
        self.counters["dropped_tokens"] += len(deferred.own) * self.size
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
        self._save_path(deferred.prefix)
        for lock in deferred.handles:
            self._lock(deferred.prefix)
            self._unlock(lock.prefix)
            lock.prefix = deferred.prefix
        return [] if deferred.handles else self._give_up(deferred)

    # -- saves ----------------------------------------------------------------------------------

    def _save_path(self, prefix: Prefix) -> None:
        """Save what of the path is on the device, neither saved nor being saved, and due: from its
        write_threshold-th hit on (write_through: from the first).
        """
        if self.write_policy == "write_back":
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
        copy = self.trace.take_submitted(D2H)
        count = 0 if copy is None else len(copy.device_pages)
        room = self.host_free + self.evictable("host")
        require_equal("pages that an insert saves", count, min(len(wanted), room))
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

    # -- loads ----------------------------------------------------------------------------------

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
            if result is not None:
                require(result.tokens <= max_tokens, "load_back gave more than max_tokens")
                length = min(length, start + result.tokens // self.size)
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
        count = length - start
        if count == 0 or count < self.threshold:
            require(result is None, "load_back: below the threshold, the cache gave", result)
            return None
        on_path = sum(
            self.cached[part].locks == 0 and self.cached[part].device is not None
            for part in prefixes
        )
        if self.demotes and result is None and fresh:
            self._lock(prefixes[length - 1])
            self._demote(len(fresh) + int(self.spare * self.device_total))
            self._unlock(prefixes[length - 1])
            require(self.device_free < len(fresh), "load_back gave None, enough pages are free")
            return None
        if len(fresh) > self.device_free + self.evictable("device") - on_path:
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

    def release(self, loading: Loading) -> None:
        if loading.released or loading.epoch != self.epoch:
            loading.released = True
            return
        loading.released = True
        freed = []
        for load in loading.loads:
            freed += self._drop_user(load)
        self._unlock(loading.prefix)
        self.trace.expect_device_freed(freed)

    # -- acks -----------------------------------------------------------------------------------

    def poll(self, limit: int | None = None) -> int:
        """Take in finished copies, in the order that the contract fixes; returns how many."""
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
        if self.demotes:
            self._demote(None)
        return count

    def _ack_save(self, save: Save) -> list[int]:
        kept = self._kept(save)
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

    def _ack_load(self, load: Load) -> list[int]:
        load.acked = True
        if load.copy.fails:
            self.counters["failed_loads"] += 1
            load.failed = True
            for below in self.copies:
                if isinstance(below, Load) and load in below.above:
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

    # -- flush ----------------------------------------------------------------------------------

    def reset(self, report: Any) -> None:
        self.drain()
        lost = [prefix for prefix, entry in self.cached.items() if entry.host is None]
        kept = (len(self.cached) - len(lost)) * self.size
        owned = len(self.callers())
        seen = (report.kept_host_tokens, report.dropped_tokens, report.owned_pages)
        require_equal("reset: report", seen, (kept, len(lost) * self.size, owned))
        for prefix in lost:
            self._forget(prefix)
        for entry in self.cached.values():
            entry.device = None
            entry.locks = 0
        self._free_all_but_callers()

    def clear(self) -> None:
        self.drain()
        for prefix in list(self.cached):
            self._forget(prefix)
        host = self.trace.take_all_host_freed()
        require_equal("clear: host pages freed", sorted(host), sorted(self.host_owner))
        self.host_owner.clear()
        self._free_all_but_callers()

    def invalidate(self) -> None:
        self.clear()
        self.version += 1

    def _free_all_but_callers(self) -> None:
        pages = [p for p, o in self.device_owner.items() if not isinstance(o, CallerPage)]
        for page in pages:
            del self.device_owner[page]
        self.trace.expect_device_freed(pages)
        self.leaving = set()
        self.epoch += 1

    # -- all of it ------------------------------------------------------------------------------

    def verify(self, stats: Any) -> None:
        """Counters are equal, pages by state add up, nothing was done that no call explains."""
        self.trace.require_explained()
        if self.demotes:
            self.see_leaving()
        seen = vars(stats)
        for name in EXACT_COUNTERS:
            if name == "refused_save_tokens" and self.demotes:
                continue  # which pages were wanted is the cache's choice
            if seen[name] != self.counters[name]:
                require_equal(f"counter {name}", seen[name], self.counters[name])
        loads = sum(isinstance(copy, Load) for copy in self.copies)
        in_flight = (stats.loads_in_flight, stats.saves_in_flight)
        require_equal("copies in flight", in_flight, (loads, len(self.copies) - loads))
        cached = sum(isinstance(owner, tuple) for owner in self.device_owner.values())
        owned = len(self.device_owner) - cached
        self._verify_tier("device", stats.device, self.device_free, owned)
        cached = sum(isinstance(owner, tuple) for owner in self.host_owner.values())
        owned = len(self.host_owner) - cached
        self._verify_tier("host", stats.host, self.host_free, owned)
        for tier in ("device", "host"):
            self._require_unbroken(tier)

    def _verify_tier(self, name: str, tier: Any, free: int, owned: int) -> None:
        seen = (tier.free_pages, tier.evictable_pages, tier.owned_pages)
        require_equal(f"{name}: free, evictable, owned", seen, (free, self.evictable(name), owned))
        parts = sum(seen) + tier.locked_pages
        require_equal(f"{name}: pages by state and in total", parts, tier.total_pages)


EXACT_COUNTERS = (
    "matched_device_tokens",
    "matched_host_tokens",
    "load_back_tokens",
    "load_back_bytes",
    "saved_tokens",
    "saved_bytes",
    "inserted_tokens",
    "duplicate_tokens",
    "evicted_device_tokens",
    "evicted_host_tokens",
    "dropped_tokens",
    "failed_loads",
    "failed_saves",
    "refused_save_tokens",
    "joined_loads",
    "declined_loads",
)
