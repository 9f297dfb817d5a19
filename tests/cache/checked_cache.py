"""A cache that is checked after every call, and shows what is free without any further call."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from checked_calls import CheckedCalls
from engine import device_holds, fill, host_holds, identity

import hicache_nsa as hc

PAGE = 4
LONG = 30.0
A, B = list(range(16)), list(range(100, 116))


class Checked(CheckedCalls):
    """A cache that is checked after every call."""

    def __init__(self, device_pages: int, host_pages: int, **options: Any) -> None:
        fmt = hc.formats.dsa(2, page_size=PAGE, kv_lora_rank=128, rope_head_dim=4)
        pages = {"device_pages": device_pages, "host_pages": host_pages}
        super().__init__(hc.HiCache(fmt, **pages, **options))

    def put(self, tokens: list[int], **options: Any) -> hc.InsertResult:
        """Compute every whole page of ``tokens`` and insert them."""
        pages = self.allocate(len(tokens) // PAGE)
        self.write(tokens, pages)
        return self.insert(tokens, pages, **options)

    def write(self, tokens: list[int], pages: Any, first: int = 0) -> None:
        for index, page in enumerate(pages, start=first):
            fill(self.cache, page, identity(None, np.array(tokens), index))

    def put_on_host(self, tokens: list[int]) -> None:
        self.put(tokens)
        assert self.drain(LONG)
        assert self.evict_device(len(tokens)) == len(tokens)

    def start_load(self, tokens: list[int]) -> hc.LoadBack:
        load = self.load_back(self.match_prefix(tokens))
        assert load is not None
        return load

    def hit(self, tokens: list[int]) -> tuple[int, int]:
        """Tokens that match by tier; every page of them has its own bytes."""
        match = self.match_prefix(tokens, count=False)
        for index, page in enumerate(match.device_pages):
            assert device_holds(self.cache, page, identity(None, np.array(tokens), index))
        for index, page in enumerate(match.host_pages, start=len(match.device_pages)):
            assert host_holds(self.cache, page, identity(None, np.array(tokens), index))
        return match.device_tokens, match.host_tokens

    @property
    def unused(self) -> tuple[int, int]:
        """Pages that are free in each tier at this moment."""
        return self.cache.device_pool.free_pages, self.cache.host_pool.free_pages

    @property
    def device(self) -> tuple[int, int, int, int]:
        """free, evictable, locked, owned pages once all that can be freed is."""
        return _states(self.stats().device)

    @property
    def host(self) -> tuple[int, int, int, int]:
        return _states(self.stats().host)


def _states(tier: hc.TierStats) -> tuple[int, int, int, int]:
    return tier.free_pages, tier.evictable_pages, tier.locked_pages, tier.owned_pages


def leaves(cache: Checked, count: int) -> None:
    """``count`` prompts of one page each, all saved."""
    for i in range(count):
        cache.cache.insert([i, 0, 0, 1], cache.cache.allocate(1))
    assert cache.drain(LONG)


def settle(cache: Checked, direction: str) -> None:
    """Wait until no copy runs, without taking any in."""
    limit = time.monotonic() + LONG
    while cache.cache.engine.in_flight(direction):
        assert time.monotonic() < limit
        time.sleep(0.001)
