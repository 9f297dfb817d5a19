"""How long the runs of pages are that loads and saves move, as a trace leaves the pools.

    python bench/host_extents.py TRACE [--json bench/results/host_extents.json]

TRACE is in Mooncake's format (``input_length`` and ``hash_ids`` a line). All of it is replayed
through a real cache on the CPU, for host pools of a quarter and a half of the trace's distinct
pages and for several shares of spare pages. The lengths of runs are weighted by pages: the median
is the run that the median page lies in. Every page that is found on the device or comes back is
compared with its hash.
"""

from __future__ import annotations

import argparse
import time
from itertools import pairwise
from pathlib import Path

import numpy as np

from hicache_nsa.bench.replay import Copied, Replay, copy_runs, host_runs, read_mooncake, replay
from report import write_report

PAGE = 64
QUARTERS = 4


def distinct_pages(trace: Path, limit: int | None) -> int:
    """Whole pages of the trace, each prefix once: equal first tokens mean equal prefixes here."""
    known: set[int] = set()
    for index, tokens in enumerate(read_mooncake(trace)):
        if index == limit:
            break
        known.update(tokens[: len(tokens) // PAGE * PAGE : PAGE].tolist())
    return len(known)


def lengths(runs: np.ndarray) -> dict[str, float]:
    """What there is to say about the lengths of runs; all but the first two weighted by pages."""
    runs = np.sort(runs)
    pages = int(runs.sum())
    if pages == 0:
        return {"runs": 0, "pages_per_run": 0.0}
    middle = int(np.searchsorted(np.cumsum(runs), pages / 2))
    return {
        "runs": len(runs),
        "pages_per_run": pages / len(runs),
        "mean": float((runs * runs).sum() / pages),
        "median": int(runs[middle]),
        "share_in_16_or_more": float(runs[runs >= 16].sum() / pages),
        "share_in_64_or_more": float(runs[runs >= 64].sum() / pages),
    }


def summary(copies: list[Copied]) -> dict[str, object]:
    return {
        "copies": len(copies),
        "pages": sum(len(copy.host_pages) for copy in copies),
        "host_runs": lengths(host_runs(copies)),
        "copy_runs": lengths(copy_runs(copies)),
    }


def by_quarter(copies: list[Copied], requests: int) -> list[dict[str, object]]:
    """One summary for each quarter of the requests, and one for all."""
    borders = [quarter * requests // QUARTERS for quarter in range(QUARTERS + 1)]
    parts = [
        [copy for copy in copies if start <= copy.request < end] for start, end in pairwise(borders)
    ]
    names = [f"quarter {number}" for number in range(1, QUARTERS + 1)]
    return [
        {"requests": name, **summary(part)}
        for name, part in zip([*names, "all"], [*parts, copies], strict=True)
    ]


def case(done: Replay, host_pages: int, share: float, spare: float) -> dict[str, object]:
    stats = done.stats
    return {
        "id": f"host_extents/host_{share:.0%}/spare_{spare:.0%}",
        "host_pages": host_pages,
        "spare": spare,
        "requests": done.requests,
        "prompt_tokens": done.prompt_tokens,
        "device_hit_tokens": stats.matched_device_tokens,
        "host_hit_tokens": stats.matched_host_tokens,
        "evicted_host_tokens": stats.evicted_host_tokens,
        "free_host_pages": stats.host.free_pages,
        "free_host_extents": stats.host.free_extents,
        "largest_free_host_extent": stats.host.largest_free_extent,
        "loads": by_quarter(done.loads, done.requests),
        "saves": by_quarter(done.saves, done.requests),
        "verified": True,  # the replay raises otherwise
    }


def show(result: dict) -> None:
    hits = (result["device_hit_tokens"] + result["host_hit_tokens"]) / result["prompt_tokens"]
    print(f"{result['id']}: {result['host_pages']:,} host pages, hits {hits:.2%}")
    for kind in ("loads", "saves"):
        for part in result[kind]:
            for runs in ("host_runs", "copy_runs"):
                figures = part[runs]
                if figures["runs"]:
                    print(
                        f"  {kind} {part['requests']:<10} {runs}  {part['pages']:>9,} pages  "
                        f"a run {figures['pages_per_run']:6.1f}  median {figures['median']:5d}  "
                        f"mean {figures['mean']:6.1f}  "
                        f">=16 {figures['share_in_16_or_more']:6.1%}  "
                        f">=64 {figures['share_in_64_or_more']:6.1%}"
                    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--json", default=None)
    parser.add_argument("--device-pages", type=int, default=20_000)
    parser.add_argument("--shares", default="0.25,0.5", help="host pool, of the distinct pages")
    parser.add_argument("--spares", default="0,0.01,0.03", help="spare pages, of each pool")
    parser.add_argument("--limit", type=int, default=None, help="replay only so many requests")
    args = parser.parse_args()
    distinct = distinct_pages(args.trace, args.limit)
    print(f"{args.trace.name}: {distinct:,} distinct pages of {PAGE} tokens")
    cases = []
    for share in map(float, args.shares.split(",")):
        for spare in map(float, args.spares.split(",")):
            host_pages = int(share * distinct)
            start = time.perf_counter()
            done = replay(
                read_mooncake(args.trace),
                device_pages=args.device_pages,
                host_pages=host_pages,
                page_size=PAGE,
                spare=spare,
                limit=args.limit,
            )
            seconds = time.perf_counter() - start
            cases.append({**case(done, host_pages, share, spare), "replay_seconds": seconds})
            show(cases[-1])
    more = {
        "trace": args.trace.name,
        "distinct_pages": distinct,
        "device_pages": args.device_pages,
        "page_size": PAGE,
    }
    write_report(args.json, f"python bench/host_extents.py {args.trace.name}", cases, **more)


if __name__ == "__main__":
    main()
