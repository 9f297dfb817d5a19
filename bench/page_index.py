"""What a full page index takes for a key: lookup, pin, touch, store and evict, binding included.

    python bench/page_index.py [--json bench/results/page_index.json]

Calls of 1,000 keys of 36 random bytes, one chain each, on an index of 100,000 and of 1,000,000
pages that is full; chains are picked at random. A dict kept beside it says what every answer must
be: the state of every key, the page of every pinned key, that a page has one key, that parents go
after children. ``dict_us`` is the time in which a Python loop asks that dict for the same keys.
``bytes_per_key``: how much resident memory grew while the index was filled, keys included.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

import numpy as np

import hicache_nsa as hc
from hicache_nsa.page_index import HIT, MISS
from report import write_report

CALL = 1_000  # keys of a call, and of a chain
KEY_BYTES = 36
SIZES = (100_000, 1_000_000)
Result = TypeVar("Result")
Chain = list[bytes]


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Times:
    """Microseconds of each call, by what was called."""

    def __init__(self) -> None:
        self.calls: dict[str, list[float]] = {}

    def of(self, name: str, call: Callable[[], Result]) -> Result:
        start = time.perf_counter()
        result = call()
        self.calls.setdefault(name, []).append((time.perf_counter() - start) * 1e6)
        return result

    def summary(self) -> dict[str, object]:
        medians = {f"{name}_us": statistics.median(us) for name, us in self.calls.items()}
        slowest = {
            f"{name}_us_p99": float(np.percentile(us, 99)) for name, us in self.calls.items()
        }
        return {**medians, **slowest}


class Checked:
    """An index and the dict that says what it must hold."""

    def __init__(self, pages: int, policy: str) -> None:
        self.index = hc.PageIndex(pages, policy)
        self.pages: dict[bytes, int] = {}
        self.chains: list[Chain] = []
        self.places: dict[bytes, int] = {}  # how deep in its chain
        self.times = Times()

    def store(self, chain: Chain, name: str) -> None:
        store = self.times.of(name, lambda: self.index.begin_store(chain))
        assert store is not None and store.keys == chain
        for key in store.evicted:
            assert isinstance(key, bytes)
            del self.pages[key]
        places = [self.places.pop(key) for key in store.evicted]
        if places:  # one chain at a time, from its tail
            ends = [n for n in range(1, len(places)) if places[n] != places[n - 1] - 1]
            assert all(places[n - 1] == 0 for n in ends)
        self.pages.update(zip(chain, store.pages.tolist(), strict=True))
        self.places.update(zip(chain, range(CALL), strict=True))
        dropped = self.times.of("finish_store", lambda: self.index.finish_store(chain, True))
        assert dropped == []
        self.chains.append(chain)

    def ask(self, chain: Chain) -> None:
        states = self.times.of("lookup", lambda: self.index.lookup(chain))
        known = self.times.of("dict", lambda: [key in self.pages for key in chain])
        assert np.array_equal(states == HIT, known) and np.all((states == HIT) | (states == MISS))
        prefix = self.times.of("prefix", lambda: self.index.prefix(chain))
        assert prefix == [*known, False].index(False)
        hits = chain[:prefix]
        if prefix < CALL:  # timed calls have 1,000 keys
            return
        pages = self.times.of("pin", lambda: self.index.pin(hits))
        assert pages.tolist() == [self.pages[key] for key in hits]
        self.times.of("unpin", lambda: self.index.unpin(hits))
        self.times.of("touch", lambda: self.index.touch(hits))

    def finish(self) -> None:
        """Everything that was ever stored is asked for."""
        for chain in self.chains:
            assert (self.index.lookup(chain) == HIT).tolist() == [
                key in self.pages for key in chain
            ]
        assert len(set(self.pages.values())) == len(self.pages) == len(self.index)
        self.index.check()


def new_chain(rng: np.random.Generator) -> Chain:
    block = rng.bytes(CALL * KEY_BYTES)
    return [block[at : at + KEY_BYTES] for at in range(0, len(block), KEY_BYTES)]


def measure(pages: int, policy: str, rounds: int) -> dict[str, object]:
    rng = np.random.default_rng(7)
    first = [new_chain(rng) for _ in range(pages // CALL)]
    alone = hc.PageIndex(pages, policy)
    before = resident_bytes()
    for chain in first:
        store = alone.begin_store(chain)
        assert (
            store is not None and len(store.pages) == CALL and alone.finish_store(chain, True) == []
        )
    grown = resident_bytes() - before
    reset = time.perf_counter()
    assert alone.reset() == pages
    reset = time.perf_counter() - reset
    del alone
    checked = Checked(pages, policy)
    for chain in first:
        checked.store(chain, "store")
    later = [new_chain(rng) for _ in range(rounds)]
    gc.collect()
    gc.disable()
    for chain in later:
        for _ in range(3):
            checked.ask(checked.chains[int(rng.integers(len(checked.chains)))])
        checked.store(chain, "store_evicting")
    gc.enable()
    stats = checked.index.stats()
    assert stats.evicted_keys == rounds * CALL and stats.free_pages == 0
    checked.finish()
    return {
        "id": f"page_index/{policy}/{pages}",
        "pages": pages,
        "policy": policy,
        "keys_a_call": CALL,
        **checked.times.summary(),
        "reset_ms": reset * 1e3,
        "bytes_per_key": grown / pages,
        "verified": True,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", default=None)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--pages", type=int, nargs="+", default=SIZES, help="multiples of 1,000")
    parser.add_argument("--policies", nargs="+", default=["lru", "lfu"])
    args = parser.parse_args()
    if any(pages < CALL or pages % CALL for pages in args.pages):
        parser.error(f"--pages must be multiples of {CALL}, got {args.pages}")
    calls = ("lookup", "dict", "prefix", "pin", "unpin", "touch", "store", "store_evicting")
    cases = []
    for pages in args.pages:
        for policy in args.policies:
            # A process each: memory that an earlier case left would be used again uncounted.
            with get_context("spawn").Pool(1) as fresh:
                case = fresh.apply(measure, (pages, policy, args.rounds))
            cases.append(case)
            figures = "  ".join(f"{name} {case[f'{name}_us']:.0f}" for name in calls)
            print(f"{case['id']:<26} us for {CALL} keys: {figures}")
            print(
                f"{'':<26} {case['bytes_per_key']:.0f} bytes a key, reset {case['reset_ms']:.1f} ms"
            )
    write_report(args.json, "python bench/page_index.py", cases)


if __name__ == "__main__":
    main()
