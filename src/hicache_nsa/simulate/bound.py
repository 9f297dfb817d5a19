"""What no policy can exceed: the hits of a cache that knows all requests to come (Belady's MIN).

Between two requests the cache holds any pages of those it held and those just served, so many at
most as both tiers have together; at a flush, as the host tier has. It keeps those that are used
again soonest. For pages of one size, and a room that may change from request to request, this is
optimal: it is the largest set of intervals between two uses that fits at every moment. Whoever
uses a page uses all pages before it, so these are used again no later than it is; of equals any may
go, the later page too. So as many hits are had by a tree of prefixes without gaps, as a real cache
is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush

from hicache_nsa.simulate.prefixes import PrefixRuns


def most_hit_pages(runs: PrefixRuns, room: Callable[[int], int]) -> int:
    """Pages that the best cache finds, over all requests.

    room: how many pages it may hold, given how many requests have been served.
    """
    lengths = runs.lengths
    kept = [0] * len(lengths)  # leading pages of each run that are cached
    due = [0] * len(lengths)  # the next request that uses it
    candidates: list[tuple[int, int]] = []  # (-next use, run): the first goes first
    held = hits = 0
    for served, (path, nexts) in enumerate(zip(runs.paths, _next_uses(runs), strict=True), start=1):
        for run, next_use in zip(path, nexts, strict=True):
            hits += kept[run]
            again = next_use < len(runs.paths)
            now = lengths[run] if again else 0
            held += now - kept[run]
            kept[run], due[run] = now, next_use
            if again:
                heappush(candidates, (-next_use, run))
        excess = held - room(served)
        while excess > 0:
            next_use, run = candidates[0]
            if due[run] == -next_use and kept[run]:
                gone = min(kept[run], excess)
                kept[run] -= gone
                held -= gone
                excess -= gone
            if due[run] != -next_use or not kept[run]:
                heappop(candidates)
    return hits


def _next_uses(runs: PrefixRuns) -> list[Sequence[int]]:
    """For each request and each of its runs the next request that has it, else their number."""
    after = [len(runs.paths)] * len(runs.lengths)
    found: list[Sequence[int]] = []
    for index in range(len(runs.paths) - 1, -1, -1):
        path = runs.paths[index]
        found.append([after[run] for run in path])
        for run in path:
            after[run] = index
    found.reverse()
    return found
