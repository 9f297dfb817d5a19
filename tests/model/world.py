"""A cache, its model, and what callers hold of it. Every call goes to both and is compared."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
from configurations import Configuration
from contract_values import (
    Loading,
    Lock,
    Match,
    Prefix,
    chain,
    require,
    require_equal,
)
from page_tags import FORMAT, PAGE, PageTags, tag_of
from pool_trace import DIRECTIONS, SECONDS, Trace
from reference_cache import ReferenceCache

import hicache_nsa as hc
from hicache_nsa import testing

NAMESPACES = (None, "a", ("a", 1))
PAGES_OF_TOKENS = ((0, 0), (0, 1), (1, 0))


def tokens_of(prefix: Prefix, rest: int = 0) -> np.ndarray:
    """The tokens of ``prefix`` and ``rest`` tokens more, less than a page."""
    tokens = [token for page in prefix[1:] for token in PAGES_OF_TOKENS[page]]
    return np.array(tokens + [0] * rest, dtype=np.int64)


class World:
    """matches, locks, loads: what callers hold, each with its side in the model; some are stale.

    stock: device pages that callers own, and the prefix whose KV they hold (none: wrong KV).
    """

    def __init__(self, configuration: Configuration) -> None:
        c = configuration
        self.tags = PageTags(c.device_pages, c.host_pages)
        self.cache = hc.HiCache(FORMAT, device_buffers=self.tags.buffers, **c.options())
        self.tags.watch_host(self.cache.host_pool)
        self.now = 0.0
        testing.use_clock(self.cache, lambda: self.now)
        self.trace = Trace(self.cache, self.tags)
        self.model = ReferenceCache(
            size=PAGE,
            page_bytes=FORMAT.page_bytes,
            device_pages=c.device_pages - len(c.reserved),
            reserved=len(c.reserved),
            host_pages=c.host_pages,
            spare=c.spare,
            threshold=c.load_back_pages,
            polled=c.acks == "poll",
            write_policy=c.write_policy,
            write_threshold=c.write_threshold,
            leaving=self.leaving_pages,
            now=lambda: self.now,
            trace=self.trace,
            tags=self.tags,
        )
        self._low_water = int(c.low_water * (c.device_pages - len(c.reserved)))
        self.matches: list[tuple[hc.PrefixMatch, Match]] = []
        self.locks: list[tuple[hc.LockHandle, Lock]] = []
        self.loads: list[tuple[hc.LoadBack, Loading]] = []
        self.stock: dict[int, Prefix] = {}
        self.log: list[str] | None = None
        self._holds: dict[str, contextlib.ExitStack | None] = dict.fromkeys(DIRECTIONS)

    def note(self, *words: object) -> None:
        """Tell what is done, where a history is wanted."""
        if self.log is not None:
            self.log.append(" ".join(map(str, words)))

    def refused(self, errors: set[str], call: Callable[[], Any]) -> Any:
        """``call()``; None where it raises one of ``errors``, which it has to if there are any."""
        try:
            result = call()
        except (ValueError, TypeError, hc.HiCacheError) as error:
            require(type(error).__name__ in errors, f"unexpected {error!r}, not one of {errors}")
            return None
        if errors:
            require(False, f"the cache took what should raise {errors}: {result}")
        return result

    # -- calls ----------------------------------------------------------------------------------

    def match(
        self, prefix: Prefix, count: bool = True, rest: int = 0
    ) -> tuple[hc.PrefixMatch, Match]:
        self.note("match", prefix, f"count={count}")
        result = self.cache.match_prefix(
            tokens_of(prefix, rest), extra_key=NAMESPACES[prefix[0]], count=count
        )
        mine = self.model.match(prefix, count, result, rest)
        self.settle()
        return result, mine

    def stale(self, thing: Match | Lock | Loading) -> bool:
        return thing.epoch != self.model.epoch

    def lock(self, match: hc.PrefixMatch, mine: Match) -> None:
        errors = {"StaleHandleError"} if self.stale(mine) else set()
        handle = self.refused(errors, lambda: self.cache.lock(match))
        self.note("lock", mine.prefixes[-1:], handle)
        if handle is not None:
            self.locks.append((handle, self.model.lock(mine, handle)))

    def unlock(self, handle: hc.LockHandle, mine: Lock) -> None:
        self.note("unlock", mine.prefix)
        errors = {"ValueError"} if mine.released and not self.stale(mine) else set()
        self.refused(errors, lambda: self.cache.unlock(handle))
        if not errors:
            self.model.unlock(mine)

    def load_back(self, match: hc.PrefixMatch, mine: Match, **options: Any) -> None:
        errors = {"StaleHandleError"} if self.stale(mine) else set()
        load = self.refused(errors, lambda: self.cache.load_back(match, **options))
        self.note("load_back", mine.prefixes[-1:], "beyond", len(mine.device), options, load)
        if errors:
            return
        loading = self.model.load_back(mine, load, **options)
        if loading is not None:
            self.loads.append((load, loading))

    def release(self, load: hc.LoadBack, mine: Loading, cancel: bool = False) -> None:
        self.note("cancel" if cancel else "release", mine.prefix)
        if cancel:
            load.cancel()
        else:
            load.release()
        self.model.release(mine, cancel)

    def allocate(self, count: int) -> list[int] | None:
        if self.model.allocate_refused(count):
            self.note("allocate", count, "is too much")
            self.refused({"OutOfPages"}, lambda: self.cache.allocate(count))
            return None
        try:
            pages = self.cache.allocate(count).tolist()
        except hc.OutOfPages:
            pages = None
        self.note("allocate", count, pages)
        waited = self.model.demotes and not self.held("d2h") and not self.model.polled
        if waited:
            require(pages is not None, "allocate does not wait for the saves that it needs")
            while self.cache.poll() + self.trace.wait("d2h"):
                pass
        self.model.allocate(count, pages, waited)
        return pages

    def compute(self, page: int, prefix: Prefix, wrong: bool = False) -> None:
        """Write the KV of the last page of ``prefix``; wrong: computed from pages never loaded."""
        tag = tag_of(prefix, self.model.version)
        self.tags.write(page, tag ^ 0xFF if wrong else tag)
        self.stock[page] = () if wrong else prefix

    def free(self, pages: list[int]) -> None:
        self.note("free", pages)
        errors = {"ValueError"} if self.model.free_refused(pages) else set()
        self.refused(errors, lambda: self.cache.free(pages))
        if not errors:
            self.model.free(pages)
            for page in pages:
                del self.stock[page]

    def insert(
        self,
        prefix: Prefix,
        given: list[int],
        lock: bool = False,
        old: tuple[hc.LockHandle, Lock] | None = None,
        rest: int = 0,
    ) -> None:
        errors = self.model.insert_refused(prefix, given)
        if old is not None and (self.stale(old[1]) or old[1].released):
            errors |= {"StaleHandleError" if self.stale(old[1]) else "ValueError"}
        self.note("insert", prefix, given, f"lock={lock}", f"old={old and old[1].prefix}", errors)
        result = self.refused(
            errors,
            lambda: self.cache.insert(
                tokens_of(prefix, rest),
                given,
                extra_key=NAMESPACES[prefix[0]],
                lock=old[0] if old else (lock or None),
            ),
        )
        if errors:
            return
        mine = self.model.insert(
            prefix, given, lock or old is not None, old[1] if old else None, result
        )
        for page in given[: len(prefix) - 1]:
            self.stock.pop(page, None)
        if mine is not None:
            self.locks.append((result.handle, mine))

    def evict(self, tier: str, tokens: int) -> None:
        call = self.cache.evict_device if tier == "device" else self.cache.evict_host
        result = call(tokens)
        self.note("evict", tier, tokens, result)
        self.model.evict(tier, tokens, result)

    def leaving_pages(self) -> set[int]:
        """Device pages that leave once their save is in (write_back)."""
        return {
            page
            for node in self.cache.tree.nodes()
            if node.leaving
            for page in node.value[-node.leaving :].tolist()
        }

    def fail_next(self, direction: str, after_pages: int) -> None:
        self.note("fail_next", direction, after_pages)
        testing.fail_next(self.cache, direction, after_pages)
        self.trace.failures[direction] += 1

    # -- copies in flight -----------------------------------------------------------------------

    def held(self, direction: str) -> bool:
        return self._holds[direction] is not None

    def hold(self, direction: str) -> None:
        self.note("hold", direction)
        stack = self._holds[direction] = contextlib.ExitStack()
        stack.enter_context(testing.hold(self.cache, direction))

    def open(self, direction: str) -> None:
        stack = self._holds[direction]
        if stack is not None:
            self.note("open", direction)
            stack.close()
            self._holds[direction] = None

    def wait(self) -> None:
        """Copies that nothing holds end now, so that what follows depends on no thread."""
        self.model.wait(self.held)

    def poll(self, limit: int | None = None) -> int:
        count = self.cache.poll(limit)
        self.note("poll", limit, count)
        require_equal("poll", count, self.model.poll(limit, self._low_water))
        return count

    def settle(self) -> None:
        """End what may end, and with acks="auto" take it in."""
        self.trace.require_explained()
        self.wait()
        if self.model.polled:
            return
        while any(copy.copy.ended for copy in self.model.copies):
            self.poll()
            self.trace.require_explained()
            self.wait()

    def flush(self, kind: str) -> None:
        """reset, clear, invalidate, or drain: waits for every copy."""
        for direction in DIRECTIONS:
            self.open(direction)
        self.wait()
        self.note(kind)
        # Pages that are saved before they leave, or freed some time after, would be told apart from
        # those of the flush by nobody: copies end first.
        if kind in ("drain", "invalidate") or self.model.demotes:
            require(self.cache.drain(SECONDS), "drain did not end")
            self.model.drain()
            self.trace.require_explained()
        if kind == "reset":
            self.model.reset(self.cache.reset())
        elif kind == "clear":
            self.cache.clear()
            self.model.clear()
        elif kind == "invalidate":
            self.cache.invalidate()
            self.model.invalidate()

    # -- all of it ------------------------------------------------------------------------------

    def verify(self) -> None:
        self.cache.check()
        if self.model.demotes:
            self.model.see_leaving()
        self.model.verify(self.cache.stats())
        self.tags.verify()
        for load, mine in self.loads:
            self._verify_load(load, mine)

    def _verify_load(self, load: hc.LoadBack, mine: Loading) -> None:
        done = all(inner.copy.ended for inner in mine.loads)
        failed = any(inner.copy.ended and inner.copy.fails for inner in mine.loads)
        require_equal(
            "LoadBack: done, failed", (load.done(), load.error is not None), (done, failed)
        )
        if done and not failed and not mine.released and not self.stale(mine):
            parts = chain(mine.prefix)[-len(mine.pages) :]
            version = self.model.version
            self.tags.require_device(mine.pages, [tag_of(part, version) for part in parts])

    def look_at_everything(self) -> None:
        """What matches of every cached prefix is just what the model has."""
        for prefix in list(self.model.cached):
            self.match(prefix, count=False)

    def end(self) -> None:
        """All requests end: nothing may be left locked, owned or in flight."""
        for handle, lock in self.locks:
            if not lock.released:
                self.unlock(handle, lock)
                self.trace.require_explained()
        for load, loading in self.loads:
            self.release(load, loading)
            self.trace.require_explained()
        self.locks, self.loads = [], []
        self.settle()
        self.free(list(self.stock))
        self.flush("drain")
        self.trace.require_explained()
        stats = self.cache.stats()
        for tier in (stats.device, stats.host):
            require_equal("locked and owned", (tier.locked_pages, tier.owned_pages), (0, 0))
        require_equal("in flight", (stats.loads_in_flight, stats.saves_in_flight), (0, 0))

    def close(self) -> None:
        for direction in DIRECTIONS:
            self.open(direction)
        self.cache.close()

    def doomed(self, page: int) -> bool:
        """Whether ``page`` comes from a load that fails, or from an insert behind one."""
        owner = self.model.device_owner.get(page)
        return not isinstance(owner, tuple) and getattr(owner, "doomed", False)

    def loaded_pages(self) -> dict[Prefix, int]:
        """Pages that callers may insert without owning them: their LoadBacks', and those of
        inserts behind one.
        """
        pages: dict[Prefix, int] = {}
        for _, loading in self.loads:
            if not loading.released and not self.stale(loading):
                parts = chain(loading.prefix)[-len(loading.pages) :]
                pages.update(zip(parts, loading.pages, strict=True))
        for _, lock in self.locks:
            if not lock.released and not self.stale(lock):
                for deferred in lock.deferred:
                    pages.update(deferred.own)
        return {part: page for part, page in pages.items() if page in self.model.device_owner}
