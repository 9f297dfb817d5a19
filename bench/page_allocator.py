"""How long the page allocator takes, on a fresh and on a badly fragmented pool.

    python bench/page_allocator.py [--json bench/results/page_allocator.json]

100,000 pages (and 6.6 million for frees of 64). Every case ends with the allocator's own check.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np

from hicache_nsa._core import PageAllocator
from report import write_report

NO_PAGES = np.empty(0, dtype=np.int64)


def fragmented(num_pages: int) -> PageAllocator:
    """Every second page free: the worst there is."""
    allocator = PageAllocator(num_pages, NO_PAGES)
    pages = allocator.allocate(num_pages)
    allocator.free(pages[::2].copy())
    return allocator


def measure(name: str, allocator: PageAllocator, size: int, rounds: int) -> dict[str, object]:
    """Medians of one allocate and one free of ``size`` pages."""
    allocs, frees = [], []
    for _ in range(rounds):
        start = time.perf_counter()
        pages = allocator.allocate(size)
        middle = time.perf_counter()
        assert pages is not None and len(set(pages.tolist())) == size
        np.random.default_rng(len(allocs)).shuffle(pages)
        again = time.perf_counter()
        allocator.free(pages)
        frees.append(time.perf_counter() - again)
        allocs.append(middle - start)
    allocator.check()
    return {
        "id": f"page_allocator/{name}/{size}",
        "pages": size,
        "allocate_us_median": statistics.median(allocs) * 1e6,
        "allocate_us_p99": float(np.percentile(allocs, 99)) * 1e6,
        "free_us_median": statistics.median(frees) * 1e6,
        "free_us_p99": float(np.percentile(frees, 99)) * 1e6,
        "extents": allocator.num_extents,
        "verified": True,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", default=None)
    parser.add_argument("--rounds", type=int, default=2000)
    args = parser.parse_args()
    cases = []
    for size in (1, 8, 64, 256):
        fresh = PageAllocator(100_000, NO_PAGES)
        cases.append(measure("100k_fresh", fresh, size, args.rounds))
        cases.append(measure("100k_fragmented", fragmented(100_000), size, args.rounds))
    cases.append(measure("6.6M_fragmented", fragmented(6_600_000), 64, args.rounds))
    for case in cases:
        print(
            f"{case['id']:<38} allocate {case['allocate_us_median']:7.2f} us"
            f" (p99 {case['allocate_us_p99']:7.2f})   free {case['free_us_median']:7.2f} us"
            f" (p99 {case['free_us_p99']:7.2f})   {case['extents']} extents"
        )
    write_report(args.json, "python bench/page_allocator.py", cases)


if __name__ == "__main__":
    main()
