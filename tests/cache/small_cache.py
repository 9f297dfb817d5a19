"""A small cache whose pages hold bytes made from their prefix; ``check()`` runs after each call."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import numpy as np
from checked_calls import CheckedCalls
from engine import LAYERS, PAGE, device_holds, fill, identity

import hicache_nsa as hc
from hicache_nsa.stats import TierStats

LONG = 30.0  # seconds: long enough for anything on a busy machine


class SmallCache(CheckedCalls):
    """Everything here counts pages, but for ``hit``, which counts tokens as a match does."""

    def __init__(self, device_pages: int, host_pages: int, **options: Any) -> None:
        fmt = hc.formats.dsa(LAYERS, page_size=PAGE, kv_lora_rank=128, rope_head_dim=4)
        pages = {"device_pages": device_pages, "host_pages": host_pages}
        super().__init__(hc.HiCache(fmt, **pages, **options))

    # -- numbers --------------------------------------------------------------------------------

    @property
    def device(self) -> tuple[int, int, int, int]:
        """Free, evictable, locked, owned."""
        return _pages(self.cache.stats().device)

    @property
    def host(self) -> tuple[int, int, int, int]:
        """Free, evictable, locked, owned."""
        return _pages(self.cache.stats().host)

    @property
    def pinned(self) -> tuple[int, int]:
        """On the device and on host."""
        stats = self.cache.stats()
        return stats.device.pinned_pages, stats.host.pinned_pages

    def locks(self) -> set[int]:
        """The lock counts that occur."""
        return {node.lock_ref for node in self.cache.tree.nodes()}

    def loads_submitted(self) -> int:
        return self.engine.counters()["h2d"]["submitted"]

    def picture(self) -> tuple[Any, ...]:
        """Everything that a call which changes nothing leaves as it was."""
        nodes = sorted(
            (n.start, n.end, tuple(n.key.numpy()), tuple(n.device_pages), tuple(n.host_pages),
             n.lock_ref, n.pin_ref, n.hits, n.last_access)
            for n in self.cache.tree.nodes()
        )  # fmt: skip
        return nodes, self.device, self.host, self.pinned

    # -- work -----------------------------------------------------------------------------------

    def compute(self, tokens: Iterable[int], first: int = 0) -> np.ndarray:
        """Pages with the right bytes for whole pages ``first ..`` of ``tokens``."""
        ids = np.array(list(tokens), dtype=np.int64)
        pages = self.allocate(len(ids) // PAGE - first)
        for index, page in enumerate(pages.tolist(), start=first):
            fill(self.cache, page, identity(None, ids, index))
        return pages

    def put(self, tokens: Iterable[int], **options: Any) -> hc.InsertResult:
        """Compute and insert all whole pages."""
        tokens = list(tokens)
        return self.insert(tokens, self.compute(tokens), **options)

    def put_on_host(self, *prompts: Iterable[int]) -> None:
        """Insert, save, and leave only the host copies."""
        for prompt in prompts:
            self.put(prompt)
            assert self.drain(LONG)
        self.evict_device(10**6)

    def put_behind(self, load: hc.LoadBack, tokens: list[int], **options: Any) -> hc.InsertResult:
        """Insert ``tokens`` on the pages of ``load`` and computed ones behind them."""
        own = self.compute(tokens, len(load.pages))
        return self.insert(tokens, np.concatenate([load.pages, own]), **options)

    def start(self, tokens: Iterable[int], **options: Any) -> hc.LoadBack:
        load = self.load_back(self.match_prefix(list(tokens), count=False), **options)
        assert load is not None
        return load

    def end(self, load: hc.LoadBack, how: str = "release") -> None:
        getattr(load, how)()
        self.cache.check()

    def settle(self) -> None:
        """Wait until no copy runs, without taking any in."""
        limit = time.monotonic() + LONG
        while self.engine.in_flight("h2d") or self.engine.in_flight("d2h"):
            assert time.monotonic() < limit
            time.sleep(0.001)

    # -- what is there --------------------------------------------------------------------------

    def hit(self, tokens: Iterable[int]) -> tuple[int, int]:
        """Device and host tokens, without counting as a use; device bytes are compared."""
        tokens = list(tokens)
        match = self.match_prefix(tokens, count=False)
        assert self.holds(match.device_pages, tokens)
        return match.device_tokens, match.host_tokens

    def holds(self, pages: Iterable[int], tokens: Iterable[int], first: int = 0) -> bool:
        """Whether the pages hold whole pages ``first ..`` of ``tokens``."""
        ids = np.array(list(tokens), dtype=np.int64)
        return all(
            device_holds(self.cache, int(page), identity(None, ids, index))
            for index, page in enumerate(pages, start=first)
        )


def _pages(tier: TierStats) -> tuple[int, int, int, int]:
    return tier.free_pages, tier.evictable_pages, tier.locked_pages, tier.owned_pages
