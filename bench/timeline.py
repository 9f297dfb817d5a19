"""What the timeline costs a call of the cache and a record, off and on: medians of rounds, in ns.

python bench/timeline.py
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median

import numpy as np

from hicache_nsa import HiCache, _core, formats


def nanoseconds(call: Callable[[], object], times: int) -> float:
    """Of one ``call``, the loop's own share included."""
    started = time.perf_counter_ns()
    for _ in range(times):
        call()
    return (time.perf_counter_ns() - started) / times


def main() -> None:
    """Print a line a case; cases take turns in every round."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--times", type=int, default=20_000)
    arguments = parser.parse_args()
    tokens = np.arange(64 * 8)
    off, on = _core.Timeline(), _core.Timeline()
    on.start(65536)
    cache = HiCache(formats.dsa(2, page_size=64), device_pages=16, host_pages=16)
    cache.insert(tokens, cache.allocate(8))
    cache.drain()
    packed = cache.match_prefix(tokens)

    def recorded(call: Callable[[], object]) -> Callable[[], float]:
        def timed() -> float:
            cache.timeline.start()
            try:
                return nanoseconds(call, arguments.times)
            finally:
                cache.timeline.stop()

        return timed

    def plain(call: Callable[[], object]) -> Callable[[], float]:
        return lambda: nanoseconds(call, arguments.times)

    cases: dict[str, Callable[[], float]] = {
        "an empty Python call": plain(lambda: None),
        "add(), off": plain(lambda: off.add("compute", "x", 1, 2)),
        "add(), on": plain(lambda: on.add("compute", "x", 1, 2)),
        "match_prefix of 512 tokens, off": plain(lambda: cache.match_prefix(tokens)),
        "match_prefix of 512 tokens, on": recorded(lambda: cache.match_prefix(tokens)),
        "evict_host(0), off": plain(lambda: cache.evict_host(0)),
        "evict_host(0), on": recorded(lambda: cache.evict_host(0)),
    }
    found: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(arguments.rounds):
        for name, case in cases.items():
            found[name].append(case())
    parts = [_core.measure_timeline(arguments.times) for _ in range(arguments.rounds)]
    for name in parts[0]:
        found[f"C++: {name}"] = [part[name] for part in parts]
    for name, values in found.items():
        print(f"{name:34} {median(values):8.1f} ns  (best {min(values):.1f})")
    assert packed.device_tokens == len(tokens)
    cache.close()


if __name__ == "__main__":
    main()
