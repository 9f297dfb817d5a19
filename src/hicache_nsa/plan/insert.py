"""What an insert does with each of the caller's pages, worked out before anything changes.

Position i of the plan is whole page i of the tokens. The tree may have it on the device (then the
caller's page is a duplicate), on host only or not at all (then the caller's page is taken in).
Pages that stand behind a load that is still in flight, or has failed, cannot be taken in yet:
from the first of them on the insert is *deferred*.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from hicache_nsa.plan.ownership import Owner
from hicache_nsa.tokens import NO_PAGES, PageIds
from hicache_nsa.tree.node import Node


class Holder(Protocol):
    """A load or a deferred insert that holds pages outside the tree."""

    @property
    def landed(self) -> bool:
        """Whether its pages are right and were not needed (the tree has others)."""

    def page_at(self, position: int) -> int:
        """Its page for whole page ``position`` of the prefix, -1 if it has none there."""


class PageTable(Protocol):
    """The part of the ledger that planning reads."""

    state: npt.NDArray[np.int8]

    @property
    def holder(self) -> Mapping[int, Any]:
        """Who has a page that is HELD."""


class InsertPlan(NamedTuple):
    """Outcome for pages ``0 .. n - 1``.

    pages: the page to use at each position from now on.
    duplicates: the caller's own pages that the tree does not need.
    taken: positions, below ``upto``, whose page the tree takes in.
    upto: the first position that is deferred (n when none is): behind a load, and not yet there.
    behind: the loads and deferred inserts that the rest waits for.
    own: positions from ``upto`` on whose page the caller owns.
    """

    pages: PageIds
    duplicates: PageIds
    taken: npt.NDArray[np.int64]
    upto: int
    behind: tuple[Any, ...]
    own: npt.NDArray[np.int64]


def plan_insert(
    path: Sequence[Node], end: int, given: PageIds, table: PageTable, page_size: int
) -> InsertPlan:
    """Plan the insert of ``given`` along ``path``, which shares ``end`` tokens, and below it.

    Raises:
        ValueError: a page is free, cached at another place, or held by somebody else's load; the
            message names page and position.
    """
    tree = tree_pages(path, end, len(given), page_size)
    state = table.state[given]
    behind: dict[Any, None] = {}
    upto = len(given)
    for position in np.flatnonzero(state == Owner.HELD).tolist():
        holder = table.holder[int(given[position])]
        if holder.page_at(position) != given[position]:
            raise ValueError(_message(given, position, "belongs to another place of a load"))
        if not holder.landed or tree[position] < 0:
            upto = min(upto, position)
            behind[holder] = None
    mine = given == tree
    wrong = np.flatnonzero((state == Owner.TREE) & ~mine)
    if len(wrong):
        raise ValueError(_message(given, int(wrong[0]), "is cached at another place"))
    free = np.flatnonzero(state == Owner.FREE)
    if len(free):
        raise ValueError(_message(given, int(free[0]), "is free or reserved"))
    position_of = np.arange(len(given))
    owned = state == Owner.CALLER
    there = tree >= 0  # an unbroken prefix, right whatever becomes of the loads
    upto = max(upto, int(np.count_nonzero(there)))
    return InsertPlan(
        pages=np.where(there, tree, given),
        duplicates=given[owned & there],
        taken=np.flatnonzero(owned & ~there & (position_of < upto)),
        upto=upto,
        behind=tuple(behind),
        own=np.flatnonzero(owned & (position_of >= upto)),
    )


def tree_pages(path: Sequence[Node], end: int, count: int, page_size: int) -> PageIds:
    """The tree's device page at each position, -1 where it has none."""
    parts = []
    for node in path:
        parts.append(node.device_pages)
        if len(node.device_pages) * page_size < len(node.key):
            break
    known = np.concatenate([NO_PAGES, *parts])[: min(count, end // page_size)]
    tree = np.full(count, -1, dtype=np.int64)
    tree[: len(known)] = known
    return tree


def _message(given: PageIds, position: int, problem: str) -> str:
    return f"pages[{position}]={given[position]} {problem}; insert takes pages the caller owns"
