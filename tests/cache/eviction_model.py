"""A cache beside a naive model of it: one entry a page, victims found by looking at all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import hicache_nsa as hc
from hicache_nsa.tree import EVICTION_POLICIES, EvictionPolicy, Node

PAGE = 4
POOL = 512  # pages; the model never runs out
FORMAT = hc.formats.dsa(1, page_size=PAGE, kv_lora_rank=128, rope_head_dim=4)
Path = tuple[int, ...]
"""A page by what it holds: one number for it and for each page before it."""


class MostHitsFirst(EvictionPolicy):
    """A policy whose keys fall with every hit."""

    name = "most_hits"
    may_fall = True

    def key(self, node: Node) -> tuple[int, int]:
        return -node.hits, node.created


class AllEqual(EvictionPolicy):
    name = "all_equal"

    def key(self, node: Node) -> int:
        return 0


class ThriceHitStay(EvictionPolicy):
    """An order that reads all four."""

    name = "thrice_hit_stay"

    def key(self, node: Node) -> tuple[bool, int, int, int]:
        return node.hits > 2, node.priority, node.hits, node.last_access


@dataclass
class Page:
    created: int
    last_access: int
    priority: int
    hits: int = 1
    locks: int = 0


ORDERS: dict[str, Callable[[Page], Any]] = {
    "lru": lambda p: p.last_access,
    "lfu": lambda p: (p.hits, p.last_access),
    "fifo": lambda p: p.created,
    "mru": lambda p: -p.last_access,
    "filo": lambda p: -p.created,
    "slru": lambda p: (p.hits >= 2, p.last_access),
    "priority": lambda p: (p.priority, p.last_access),
    "most_hits": lambda p: (-p.hits, p.created),
    "all_equal": lambda p: p.created,
    "thrice_hit_stay": lambda p: (p.hits >= 3, p.priority, p.hits, p.last_access),
}


POLICIES = [*EVICTION_POLICIES, MostHitsFirst(), AllEqual(), ThriceHitStay()]


def order_name(policy: str | EvictionPolicy) -> str:
    return policy if isinstance(policy, str) else policy.name


def prompt(path: Path) -> np.ndarray:
    return np.repeat(np.array(path, dtype=np.int64), PAGE)


@dataclass
class Pair:
    """Every call goes to the cache and to the model; then both must hold the same pages."""

    policy: str | EvictionPolicy
    pages: dict[Path, Page] = field(default_factory=dict)
    device: set[Path] = field(default_factory=set)
    host: set[Path] = field(default_factory=set)
    handles: list[tuple[hc.LockHandle, list[Path]]] = field(default_factory=list)
    now: int = 0

    def __post_init__(self) -> None:
        self.cache = hc.HiCache(
            FORMAT, device_pages=POOL, host_pages=POOL, eviction_policy=self.policy
        )

    def __enter__(self) -> Pair:
        return self

    def __exit__(self, *exc: object) -> None:
        self.cache.close()

    # -- calls ----------------------------------------------------------------------------------

    def insert(self, path: Path, priority: int = 0) -> None:
        pages = self.cache.allocate(len(path))
        self.cache.insert(prompt(path), pages, priority=priority)
        assert self.cache.drain(30)
        self.now += 1
        for prefix in self.prefixes(path):
            page = self.pages.setdefault(prefix, Page(self.now, self.now, priority))
            page.last_access = self.now
            page.priority = max(page.priority, priority)
            self.device.add(prefix)
            self.host.add(prefix)
        self.compare()

    def match(self, path: Path, count: bool = True) -> hc.PrefixMatch:
        match = self.cache.match_prefix(prompt(path), count=count)
        known = [prefix for prefix in self.prefixes(path) if prefix in self.pages]
        assert match.tokens == len(known) * PAGE
        if count:
            self.now += 1
            for prefix in known:
                self.pages[prefix].last_access = self.now
                self.pages[prefix].hits += 1
        self.compare()
        return match

    def load(self, path: Path) -> None:
        match = self.match(path)
        load = self.cache.load_back(match)
        if load is not None:
            assert load.wait(30)
            self.cache.poll()
            load.release()
            self.device.update(p for p in self.prefixes(path) if p in self.host)
        self.compare()

    def lock(self, path: Path) -> None:
        match = self.match(path, count=False)
        known = self.prefixes(path)[: match.tokens // PAGE]
        self.handles.append((self.cache.lock(match), known))
        for prefix in known:
            self.pages[prefix].locks += 1
        self.compare()

    def unlock(self, which: int) -> None:
        if self.handles:
            handle, known = self.handles.pop(which % len(self.handles))
            self.cache.unlock(handle)
            for prefix in known:
                self.pages[prefix].locks -= 1
        self.compare()

    def evict(self, tier: str, count: int) -> list[Path]:
        """Evict pages; returns them in the model's order."""
        evict = self.cache.evict_device if tier == "device" else self.cache.evict_host
        gone = self.victims(tier, count)
        assert evict(count * PAGE) == len(gone) * PAGE
        self.compare()
        return gone

    def flush(self) -> None:
        self.cache.reset()
        self.device.clear()
        self.handles.clear()
        self.pages = {path: page for path, page in self.pages.items() if path in self.host}
        for page in self.pages.values():
            page.locks = 0
        self.compare()

    # -- the model ------------------------------------------------------------------------------

    @staticmethod
    def prefixes(path: Path) -> list[Path]:
        return [path[:length] for length in range(1, len(path) + 1)]

    def victims(self, tier: str, count: int) -> list[Path]:
        """Take out the next ``count`` pages one by one, each time the first of a sorted list."""
        there, other = (self.device, self.host) if tier == "device" else (self.host, self.device)
        order = ORDERS[order_name(self.policy)]
        gone: list[Path] = []
        while len(gone) < count:
            above = {path[:-1] for path in there}
            leaves = [p for p in there if p not in above and self.pages[p].locks == 0]
            if not leaves:
                break
            victim = sorted(leaves, key=lambda path: order(self.pages[path]))[0]
            there.discard(victim)
            if victim not in other:
                del self.pages[victim]
            gone.append(victim)
        return gone

    def compare(self) -> None:
        self.cache.check()
        device: set[Path] = set()
        host: set[Path] = set()
        for node in self.cache.tree.nodes():
            tokens = np.concatenate([above.key.numpy() for above in node.path()])
            path = tuple(tokens[::PAGE].tolist())
            first = node.start // PAGE
            device.update(path[: first + i + 1] for i in range(len(node.device_pages)))
            host.update(path[: first + i + 1] for i in range(len(node.host_pages)))
        assert device == self.device
        assert host == self.host
