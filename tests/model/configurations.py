"""The caches that the model is held against: policies, acks, layouts, and pools of few pages."""

from __future__ import annotations

import functools
import itertools
import random
from dataclasses import dataclass, replace
from typing import Any

from page_tags import FORMAT, PAGE

import hicache_nsa as hc

WRITE_POLICIES = ("write_through", "write_through_selective", "write_back")
EVICTION_POLICIES = ("lru", "lfu", "fifo", "mru", "filo", "slru", "priority")
ACKS = ("auto", "poll")
LAYOUTS = ("page_first", "layer_first", "page_first_direct")
POOLS = ((12, 16), (8, 6), (16, 24), (10, 0), (20, 8), (6, 20))


@dataclass(frozen=True)
class Configuration:
    """Options of one cache. load_back_pages: the load_back_threshold, in pages."""

    write_policy: str = "write_through"
    eviction_policy: str = "lru"
    acks: str = "auto"
    layout: str = "page_first"
    device_pages: int = 12
    host_pages: int = 16
    spare: float = 0.0
    load_back_pages: int = 1
    reserved: tuple[int, ...] = ()
    write_threshold: int = 2
    low_water: float = 0.0

    def options(self) -> dict[str, Any]:
        """For ``HiCache``, all but the device's memory."""
        low_water = {"low_water": self.low_water} if self.write_policy == "write_back" else {}
        return {
            **low_water,
            "write_threshold": self.write_threshold,
            "write_policy": self.write_policy,
            "eviction_policy": self.eviction_policy,
            "acks": self.acks,
            "layout": self.layout,
            "host_pages": self.host_pages,
            "spare": self.spare,
            "load_back_threshold": self.load_back_pages * PAGE,
            "device_reserved": self.reserved,
        }

    def __str__(self) -> str:
        pools = f"{self.device_pages}+{self.host_pages}"
        return f"{self.write_policy}-{self.eviction_policy}-{self.acks}-{self.layout}-{pools}"


@functools.cache
def has(**options: str) -> bool:
    """Whether ``HiCache`` takes these options in this version."""
    try:
        hc.HiCache(FORMAT, device_pages=1, host_pages=1, **options).close()  # type: ignore[arg-type]
    except ValueError:
        return False
    return True


@functools.cache
def policies() -> list[tuple[str, str]]:
    """Every write policy with every eviction policy that there is."""
    writes = [policy for policy in WRITE_POLICIES if has(write_policy=policy)]
    evictions = [policy for policy in EVICTION_POLICIES if has(eviction_policy=policy)]
    return list(itertools.product(writes, evictions))


def configuration(rng: random.Random, **fixed: Any) -> Configuration:
    """One of all of them; ``fixed``: fields that are given. low_water is for write_back only."""
    write_policy, eviction_policy = rng.choice(policies())
    device_pages, host_pages = rng.choice(POOLS)
    found = Configuration(
        write_policy,
        eviction_policy,
        acks=rng.choice(ACKS),
        layout=rng.choice(LAYOUTS),
        device_pages=device_pages,
        host_pages=host_pages,
        spare=rng.choice((0.0, 0.0, 0.2)),
        load_back_pages=rng.choice((1, 1, 2)),
        reserved=rng.choice(((), (), (0,), (0, 5))),
        write_threshold=rng.choice((2, 2, 3)),
        low_water=rng.choice((0.0, 0.3)),
    )
    return replace(found, **fixed)
