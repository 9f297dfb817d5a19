"""The cases of ``hicache bench tree``: what each builds, times and checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from hicache_nsa.bench.tree.memory import AGENTIC, LEAVES, measure_memory
from hicache_nsa.bench.tree.peers import make_subject
from hicache_nsa.bench.tree.serving import insert_leaves, match_all, require_matched, serve
from hicache_nsa.bench.tree.settings import PAGE_SIZE, TreeSettings
from hicache_nsa.bench.tree.timing import Figures, collector, spread, timed
from hicache_nsa.bench.tree.workloads import Workload, Workloads
from hicache_nsa.errors import require_equal

MOST_EVICTIONS = 1_000
EVICTION_SECONDS = 3.0  # a peer may take 0.2 s for each


@dataclass(frozen=True, slots=True)
class TreeCase:
    """``measure``: one round, of the subject with that name. ``figure``: the one that is compared.

    ``ours_only``: a peer has no part in it. ``traced``: it needs a trace. ``read``: reads the files
    that it needs; ``ValueError`` for one that can't be used.
    """

    id: str
    figure: str
    measure: Callable[[str], Figures]
    ours_only: bool = False
    traced: bool = False
    read: Callable[[], object] = lambda: None


def tree_cases(settings: TreeSettings) -> list[TreeCase]:
    """All cases, in the order in which they run."""
    work = Workloads(settings)
    conversation: Any = {"traced": True, "read": lambda: work.conversation}
    return [
        TreeCase(
            "match/few_shot",
            "p50_us",
            lambda name: _match(name, work.few_shot),
            read=lambda: work.few_shot,
        ),
        TreeCase(
            "match/conversation",
            "p50_us",
            lambda name: _match(name, work.conversation),
            **conversation,
        ),
        TreeCase("match/agentic", "p50_us", lambda name: _match(name, work.agentic)),
        TreeCase("match/long", "p50_us", lambda name: _match(name, work.long)),
        TreeCase(
            "insert/conversation/host",
            "p50_us",
            lambda name: _insert(name, work.conversation, host=True),
            ours_only=True,
            **conversation,
        ),
        TreeCase(
            "insert/conversation/device",
            "p50_us",
            lambda name: _insert(name, work.conversation, host=False),
            **conversation,
        ),
        TreeCase(
            "replay/conversation",
            "seconds",
            lambda name: _replay(name, work.conversation),
            **conversation,
        ),
        TreeCase("evict/one", "p50_us", lambda name: _evict_one(name, work)),
        TreeCase("evict/many", "us_per_page", lambda name: _evict_many(name, work)),
        TreeCase("memory/leaf", "bytes_per_leaf", lambda name: _leaf_memory(name, settings)),
        TreeCase("memory/agentic", "bytes_per_token", lambda name: _token_memory(name, settings)),
        TreeCase("pauses/gc_on", "p99_us", lambda name: _pauses(name, work, on=True)),
        TreeCase("pauses/gc_off", "p99_us", lambda name: _pauses(name, work, on=False)),
    ]


def _match(name: str, workload: Workload) -> Figures:
    """Matches of prompts that are all there."""
    subject = make_subject(name)(workload.pages, 0)
    serve(subject, workload.inserted, workload.expected)
    with collector(on=True):
        times = match_all(subject, workload.queries)
    subject.check(workload.pages)
    subject.close()
    mean = sum(map(len, workload.queries)) / len(workload.queries)
    found = spread(times)
    return {**found, "p99_by_p50": found["p99_us"] / found["p50_us"], "mean_tokens": mean}


def _insert(name: str, workload: Workload, host: bool) -> Figures:
    """Inserts of a replay. ``settle``: waiting for the save and taking it in, after each."""
    subject = make_subject(name)(workload.pages, workload.pages if host else 0)
    with collector(on=True):
        served = serve(subject, workload.inserted, workload.expected)
    subject.check(workload.pages)
    subject.close()
    return {**spread(served.inserts), **(spread(served.settles, "settle_") if host else {})}


def _replay(name: str, workload: Workload) -> Figures:
    """Seconds of all matches and inserts of a replay, on the device alone."""
    subject = make_subject(name)(workload.pages, 0)
    with collector(on=True):
        served = serve(subject, workload.inserted, workload.expected)
    subject.check(workload.pages)
    subject.close()
    return {
        "seconds": (sum(served.matches) + sum(served.inserts)) / 1e9,
        "requests": len(workload.inserted),
        "tokens": sum(map(len, workload.inserted)),
        **spread(served.matches, "match_"),
        **spread(served.inserts, "insert_"),
    }


def _evict_one(name: str, work: Workloads) -> Figures:
    """One page a call, as many calls as fit in EVICTION_SECONDS."""
    leaves = list(work.leaves)
    subject = make_subject(name)(len(leaves), 0)
    insert_leaves(subject, leaves)
    times: list[int] = []
    most = min(MOST_EVICTIONS, len(leaves) - 1)
    with collector(on=True):
        end = perf_counter() + EVICTION_SECONDS
        while len(times) < most and (not times or perf_counter() < end):
            evicted, took = timed(subject.evict, (1,))
            times.append(took)
            require_equal("pages evicted", evicted, 1)
    require_matched(subject, leaves[len(times) - 1], 0)
    require_matched(subject, leaves[len(times)], PAGE_SIZE)
    subject.check(len(leaves) - len(times))
    subject.close()
    return {**spread(times), "leaves": len(leaves)}


def _evict_many(name: str, work: Workloads) -> Figures:
    """Many pages in one call, the least recently used ones."""
    leaves, count = list(work.leaves), work.settings.evict
    subject = make_subject(name)(len(leaves), 0)
    insert_leaves(subject, leaves)
    with collector(on=True):
        evicted, took = timed(subject.evict, (count,))
    require_equal("pages evicted", evicted, count)
    require_matched(subject, leaves[count - 1], 0)
    require_matched(subject, leaves[count], PAGE_SIZE)
    subject.check(len(leaves) - count)
    subject.close()
    return {"us_per_page": took / 1e3 / count, "pages": count, "leaves": len(leaves)}


def _leaf_memory(name: str, settings: TreeSettings) -> Figures:
    """Resident bytes a leaf, tokens and page ids of it included, the pages' own bytes not."""
    grown = measure_memory(name, LEAVES, settings)
    return {
        "bytes_per_leaf": grown["rss_bytes"] / settings.leaves,
        "gc_objects_per_leaf": grown["gc_objects"] / settings.leaves,
        "leaves": settings.leaves,
    }


def _token_memory(name: str, settings: TreeSettings) -> Figures:
    """Resident bytes a distinct token of agentic sessions: its id is 4 of them or 8."""
    grown = measure_memory(name, AGENTIC, settings)
    tokens = grown["pages"] * PAGE_SIZE
    return {"bytes_per_token": grown["rss_bytes"] / tokens, "tokens": tokens}


def _pauses(name: str, work: Workloads, on: bool) -> Figures:
    """Inserts of all leaves, then a match of each; what matches return is kept, so that the
    collector has something to look at.
    """
    leaves = list(work.leaves)
    subject = make_subject(name)(len(leaves), 0)
    with collector(on):
        inserts = insert_leaves(subject, leaves)
        matches, kept = [], []
        for tokens in leaves:
            match, took = timed(subject.match, subject.query(tokens))
            matches.append(took)
            kept.append(match)
    for match in kept:
        require_equal("tokens matched", subject.matched_tokens(match), PAGE_SIZE)
    subject.check(len(leaves))
    subject.close()
    found = spread(matches)
    return {
        **found,
        "p99_by_p50": found["p99_us"] / found["p50_us"],
        **spread(inserts, "insert_"),
        "leaves": len(leaves),
    }
