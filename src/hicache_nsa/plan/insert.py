"""What an insert does with each of the caller's pages, worked out before anything changes.

Index i of the plan is whole page i of the tokens. The tree may have it on the device (then the
caller's page is a duplicate), on host only or not at all (then the caller's page is taken in).
Pages that stand behind a load that is still in flight, or has failed, cannot be taken in yet:
from the first of them on the insert is *deferred*.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from hicache_nsa._core import TokenSpan
from hicache_nsa.plan.ownership import Owner
from hicache_nsa.tokens import NO_PAGES, PageIds, join_pages
from hicache_nsa.tree.node import Node


class Prefix(NamedTuple):
    """Tokens that are being inserted, and what the tree shares with them.

    path: the nodes that share the first ``end`` tokens, the last one perhaps in part.
    """

    tokens: TokenSpan
    namespace: bytes
    path: Sequence[Node]
    end: int


class Holder(Protocol):
    """A load, or a deferred insert, that has pages outside the tree."""

    @property
    def landed(self) -> bool:
        """Whether it is over and its pages are right: the tree took them, or had others."""

    def has(self, indices: npt.NDArray[np.int64], pages: PageIds, prefix: Prefix) -> bool:
        """Whether ``pages`` are its pages for those whole pages of that very prefix."""


class PageTable(Protocol):
    """The part of the ledger that planning reads."""

    owner: npt.NDArray[np.int8]

    @property
    def holder(self) -> Mapping[int, Holder]:
        """Who has a page that is PENDING."""


class InsertPlan(NamedTuple):
    """Outcome for whole pages ``0 .. n - 1`` of the tokens; everything here counts pages.

    pages: int64 [n], the page to use at each index from now on.
    duplicates: the caller's own pages that the tree does not need.
    taken: indices, below ``upto``, whose page goes into the tree.
    upto: the first index that is deferred (n when none is): behind a load, and not yet there.
    behind: the loads and deferred inserts that the rest waits for.
    own: indices from ``upto`` on whose page is the caller's.
    """

    pages: PageIds
    duplicates: PageIds
    taken: npt.NDArray[np.int64]
    upto: int
    behind: tuple[Holder, ...]
    own: npt.NDArray[np.int64]


def plan_insert(prefix: Prefix, given: PageIds, table: PageTable, page_size: int) -> InsertPlan:
    """Plan the insert of ``given`` along the prefix's path and below it.

    Raises:
        ValueError: a page is free, cached at another place, or with somebody else's load; the
            message names the index and the page.
    """
    owner = table.owner[given]
    known = _known_pages(prefix, len(given), page_size)
    if (given[: len(known)] == known).all() and (owner[len(known) :] == Owner.CALLER).all():
        return _plan_without_surprises(given, len(known))
    tree = _with_gaps(known, len(given))
    behind: list[Holder] = []
    upto = len(given)
    for holder, places in _by_holder(given, owner, table).items():
        indices = np.array(places, dtype=np.int64)
        if not holder.has(indices, given[indices], prefix):
            raise ValueError(
                _message(given, places[0], "is with a load of other tokens, or at another place")
            )
        waiting = indices if not holder.landed else indices[tree[indices] < 0]
        if len(waiting):
            upto = min(upto, int(waiting[0]))
            behind.append(holder)
    elsewhere = np.flatnonzero((owner == Owner.TREE) & (given != tree))
    if len(elsewhere):
        raise ValueError(_message(given, int(elsewhere[0]), "is cached at another place"))
    free = np.flatnonzero(owner == Owner.FREE)
    if len(free):
        raise ValueError(_message(given, int(free[0]), "is free or reserved"))
    every = np.arange(len(given))
    callers = owner == Owner.CALLER
    there = tree >= 0  # an unbroken prefix, right whatever becomes of the loads
    upto = max(upto, int(np.count_nonzero(there)))
    return InsertPlan(
        pages=np.where(there, tree, given),
        duplicates=given[callers & there],
        taken=np.flatnonzero(callers & ~there & (every < upto)),
        upto=upto,
        behind=tuple(behind),
        own=np.flatnonzero(callers & (every >= upto)),
    )


def _plan_without_surprises(given: PageIds, known: int) -> InsertPlan:
    """The plan where the first ``known`` pages are the tree's own and all others the caller's."""
    taken = np.arange(known, len(given))
    return InsertPlan(given.copy(), NO_PAGES, taken, len(given), (), NO_PAGES)


def _by_holder(
    given: PageIds, owner: npt.NDArray[np.int8], table: PageTable
) -> dict[Holder, list[int]]:
    """The indices of PENDING pages, ascending, by who has them."""
    indices: dict[Holder, list[int]] = {}
    for index in np.flatnonzero(owner == Owner.PENDING).tolist():
        indices.setdefault(table.holder[int(given[index])], []).append(index)
    return indices


def tree_pages(prefix: Prefix, count: int, page_size: int) -> PageIds:
    """The tree's device page at each of ``count`` indices, -1 where it has none."""
    return _with_gaps(_known_pages(prefix, count, page_size), count)


def _known_pages(prefix: Prefix, count: int, page_size: int) -> PageIds:
    """The tree's device pages of the first ``count`` whole pages: an unbroken prefix of them."""
    most = min(count, prefix.end // page_size)
    return join_pages([node.packed_value for node in prefix.path], most)


def _with_gaps(known: PageIds, count: int) -> PageIds:
    tree = np.full(count, -1, dtype=np.int64)
    tree[: len(known)] = known
    return tree


def _message(given: PageIds, index: int, problem: str) -> str:
    return f"pages[{index}]={given[index]} {problem}; insert takes pages the caller owns"
