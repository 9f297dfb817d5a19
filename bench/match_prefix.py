"""match_prefix on warm prompts, against a memcmp of two int64 arrays of the same length.

    python bench/match_prefix.py [--json bench/results/match_prefix.json]

Both are timed in turns in one run; figures are medians. The match is checked every time: all
whole pages must be device hits, with the page ids that insert was given.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import time

import numpy as np

import hicache_nsa as hc
from report import write_report

LENGTHS = (8_192, 131_072)
PAGE = 64


def time_memcmp(a: np.ndarray, b: np.ndarray, loops: int) -> float:
    memcmp = ctypes.CDLL(None).memcmp
    memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    pa, pb, size = a.ctypes.data, b.ctypes.data, a.nbytes
    start = time.perf_counter()
    for _ in range(loops):
        memcmp(pa, pb, size)
    elapsed = (time.perf_counter() - start) / loops
    assert memcmp(pa, pb, size) == 0
    return elapsed


def time_match(cache: hc.HiCache, tokens: np.ndarray, loops: int) -> float:
    start = time.perf_counter()
    for _ in range(loops):
        match = cache.match_prefix(tokens)
    elapsed = (time.perf_counter() - start) / loops
    assert match.device_tokens == len(tokens) // PAGE * PAGE
    return elapsed


def build(length: int, pieces: int) -> tuple[hc.HiCache, np.ndarray]:
    """A warm cache whose path for the prompt has ``pieces`` nodes, beside 200 other prompts."""
    fmt = hc.formats.dsa(1, page_size=PAGE, kv_lora_rank=128, rope_head_dim=4)
    rng = np.random.default_rng(7)
    tokens = rng.integers(0, 129_280, length, dtype=np.int64)
    cache = hc.HiCache(fmt, device_pages=length // PAGE + 500, host_pages=0)
    pages = cache.allocate(length // PAGE)
    step = length // pieces
    for end in range(step, length + 1, step):
        cache.insert(tokens[:end], pages[: end // PAGE])
    for _ in range(200):
        other = np.concatenate([tokens[: PAGE * int(rng.integers(1, 8))], rng.integers(0, 9, PAGE)])
        match = cache.match_prefix(other[:-1])
        new = cache.allocate(len(other) // PAGE - len(match.device_pages))
        cache.insert(other, np.concatenate([match.device_pages, new]))
    cache.check()
    assert np.array_equal(cache.match_prefix(tokens).device_pages, pages)
    return cache, tokens


def measure(length: int, pieces: int, rounds: int) -> dict[str, object]:
    cache, tokens = build(length, pieces)
    query, twin = tokens.copy(), tokens.copy()
    loops = max(20, 2_000_000 // length)
    memcmps, matches = [], []
    for _ in range(rounds):
        memcmps.append(time_memcmp(query, twin, loops))
        matches.append(time_match(cache, query, loops))
    cache.close()
    memcmp, match = statistics.median(memcmps), statistics.median(matches)
    return {
        "id": f"match_prefix/{length}/{pieces}_inserts",
        "tokens": length,
        "match_us": match * 1e6,
        "memcmp_us": memcmp * 1e6,
        "ratio": match / memcmp,
        "verified": True,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", default=None)
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    cases = [measure(n, pieces, args.rounds) for n in LENGTHS for pieces in (1, 4)]
    for case in cases:
        print(
            f"{case['id']:<34} match {case['match_us']:8.1f} us   "
            f"memcmp {case['memcmp_us']:8.1f} us   ratio {case['ratio']:.2f}"
        )
    write_report(args.json, "python bench/match_prefix.py", cases)


if __name__ == "__main__":
    main()
