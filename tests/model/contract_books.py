"""Whose each page is, what may be evicted, and what the cache's books must say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from contract_fates import BOUNDS, Ages, Fates
from contract_values import (
    Cached,
    CallerPage,
    Deferred,
    Load,
    Prefix,
    Save,
    chain,
    require,
    require_equal,
)
from page_tags import PageTags
from pool_trace import Trace

EXACT_COUNTERS = (
    "requested_tokens",
    "matched_device_tokens",
    "found_host_tokens",
    "missed_cold_tokens",
    "missed_evicted_tokens",
    "missed_flushed_tokens",
    "missed_failed_tokens",
    "missed_partial_tokens",
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
    "dropped_evicted_tokens",
    "dropped_flushed_tokens",
    "dropped_failed_tokens",
    "failed_loads",
    "failed_saves",
    "refused_save_tokens",
    "joined_loads",
    "declined_loads",
    "cancelled_loads",
)


class Books:
    """Prefixes, page owners, locks and counters. See ``ReferenceCache``."""

    def __init__(
        self,
        *,
        size: int,
        page_bytes: int,
        device_pages: int,
        reserved: int,
        host_pages: int,
        spare: float,
        threshold: int,
        polled: bool,
        write_policy: str,
        write_threshold: int,
        leaving: Callable[[], set[int]],
        now: Callable[[], float],
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
        self.now = now
        self.fates = Fates(device_pages + reserved, host_pages)
        self.ages = {"device": Ages(), "host": Ages()}

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

    def _prefix(self, page: int) -> Prefix:
        prefix = self.device_owner.get(page)
        if not isinstance(prefix, tuple):
            raise AssertionError(f"device page {page} belongs to {prefix}, not to the tree")
        return prefix

    def _lock(self, prefix: Prefix | None) -> None:
        for part in chain(prefix or ()):
            self.cached[part].locks += 1

    def _unlock(self, prefix: Prefix | None) -> None:
        for part in chain(prefix or ()):
            entry = self.cached[part]
            entry.locks -= 1
            require(entry.locks >= 0, "more unlocked than locked:", part)

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
            self.ages[tier].add(self.now() - entry.used)
            if entry.device is None and entry.host is None:
                self.fates.left(prefix, "evicted")
                self._forget(prefix, "evicted")
        if pages:
            self._require_unbroken(tier)

    def _forget(self, prefix: Prefix, reason: str) -> None:
        del self.cached[prefix]
        self._dropped(reason, 1)

    def _dropped(self, reason: str, pages: int) -> None:
        self.counters["dropped_tokens"] += pages * self.size
        self.counters[f"dropped_{reason}_tokens"] += pages * self.size

    def _used(self, prefix: Prefix) -> None:
        """What is cached of it counts as used now."""
        for part in self.there(prefix):
            self.cached[part].used = self.now()

    def _require_unbroken(self, tier: str) -> None:
        """No gap: a page is there only if all pages before it are. So only tails were evicted."""
        for prefix, entry in self.cached.items():
            if len(prefix) > 2 and getattr(entry, tier) is not None:
                above = self.cached.get(prefix[:-1])
                there = above is not None and getattr(above, tier) is not None
                require(there, f"a gap before the {tier} page of {prefix}")

    def free(self, pages: list[int]) -> None:
        for page in pages:
            del self.device_owner[page]
        self.trace.expect_device_freed(pages)

    def free_refused(self, pages: list[int]) -> bool:
        mine = all(isinstance(self.device_owner.get(page), CallerPage) for page in pages)
        return not mine or len(set(pages)) < len(pages)

    def verify(self, stats: Any) -> None:
        """Counters are equal, pages by state add up, nothing was done that no call explains."""
        self.trace.require_explained()
        seen = vars(stats)
        for name in EXACT_COUNTERS:
            if name == "refused_save_tokens" and self.demotes:
                continue  # which pages were wanted is the cache's choice
            if seen.get(name, 0) != self.counters[name]:
                require_equal(f"counter {name}", seen[name], self.counters[name])
        loads = sum(isinstance(copy, Load) for copy in self.copies)
        in_flight = (stats.loads_in_flight, stats.saves_in_flight)
        require_equal("copies in flight", in_flight, (loads, len(self.copies) - loads))
        cached = sum(isinstance(owner, tuple) for owner in self.device_owner.values())
        owned = len(self.device_owner) - cached
        flying = [len(copy.prefixes) for copy in self.copies if isinstance(copy, Load)]
        self._verify_tier("device", stats.device, self.device_free, owned, sum(flying))
        cached = sum(isinstance(owner, tuple) for owner in self.host_owner.values())
        owned = len(self.host_owner) - cached
        self._verify_tier("host", stats.host, self.host_free, owned, owned)
        for tier in ("device", "host"):
            self._require_unbroken(tier)

    def _verify_tier(self, name: str, tier: Any, free: int, owned: int, flying: int) -> None:
        seen = (tier.free_pages, tier.evictable_pages, tier.owned_pages)
        require_equal(f"{name}: free, evictable, owned", seen, (free, self.evictable(name), owned))
        require_equal(f"{name}: pages in flight", tier.in_flight_pages, flying)
        ages = self.ages[name]
        seen_ages = (tuple(tier.eviction_age.bounds), tier.eviction_age.counts)
        require_equal(f"{name}: ages of evicted pages", seen_ages, (BOUNDS, ages.counts))
        require_equal(f"{name}: sum of ages", tier.eviction_age.total, ages.total)
        parts = sum(seen) + tier.locked_pages
        require_equal(f"{name}: pages by state and in total", parts, tier.total_pages)
