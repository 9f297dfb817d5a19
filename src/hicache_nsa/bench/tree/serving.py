"""Prompts through a tree: one call after the other, each match compared with what it has to be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hicache_nsa.bench.tree.settings import PAGE_SIZE
from hicache_nsa.bench.tree.subject import TreeSubject
from hicache_nsa.bench.tree.timing import timed
from hicache_nsa.errors import require_equal
from hicache_nsa.tokens import PageIds

PASSES = 4
FEWEST_MATCHES = 200


@dataclass(slots=True)
class Served:
    """Nanoseconds of every call."""

    matches: list[int] = field(default_factory=list)
    inserts: list[int] = field(default_factory=list)
    settles: list[int] = field(default_factory=list)


def serve(subject: TreeSubject, prompts: Sequence[PageIds], expected: Sequence[int]) -> Served:
    """Match, allocate and insert each prompt; copies have ended before the next one comes.

    expected: tokens that each match has to find.

    Raises:
        InvariantError: a match found more or less.
    """
    served = Served()
    for tokens, want in zip(prompts, expected, strict=True):
        match, took = timed(subject.match, subject.query(tokens))
        served.matches.append(took)
        require_equal("tokens matched", subject.matched_tokens(match), want)
        new = subject.allocate(len(tokens) // PAGE_SIZE - want // PAGE_SIZE)
        _, took = timed(subject.insert, subject.insertion(tokens, match, new))
        served.inserts.append(took)
        _, took = timed(subject.settle, ())
        served.settles.append(took)
    return served


def match_all(subject: TreeSubject, queries: Sequence[PageIds]) -> list[int]:
    """Nanoseconds of matches of prompts that are all there, in PASSES or more passes.

    Raises:
        InvariantError: a match found less than all whole pages.
    """
    times = []
    for _ in range(max(PASSES, -(-FEWEST_MATCHES // len(queries)))):
        for tokens in queries:
            match, took = timed(subject.match, subject.query(tokens))
            times.append(took)
            whole = len(tokens) // PAGE_SIZE * PAGE_SIZE
            require_equal("tokens matched", subject.matched_tokens(match), whole)
    return times


def insert_leaves(subject: TreeSubject, leaves: Sequence[PageIds]) -> list[int]:
    """Insert prompts of one page each; nanoseconds of the inserts."""
    pages = subject.allocate(len(leaves))
    times = []
    for index, tokens in enumerate(leaves):
        arguments = subject.insertion(tokens, None, pages[index : index + 1])
        times.append(timed(subject.insert, arguments)[1])
    return times


def require_matched(subject: TreeSubject, tokens: PageIds, want: int) -> None:
    """Raise ``InvariantError`` unless a match of ``tokens`` finds ``want`` of them."""
    found = subject.matched_tokens(subject.match(*subject.query(tokens)))
    require_equal("tokens matched", found, want)
