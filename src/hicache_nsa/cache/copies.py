"""Copies in flight, as the cache remembers them: which positions of which path, which pages.

They refer to positions of a prefix and to the deepest node of the range. Nodes may be split while
the copy runs: the lower part stays the same object and everything else is found by climbing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hicache_nsa.cache.ledger import Ledger
from hicache_nsa.plan import Prefix
from hicache_nsa.tokens import NO_PAGES, PageIds
from hicache_nsa.transfer import Ticket
from hicache_nsa.tree import Node, RadixTree
from hicache_nsa.tree.node import Root

if TYPE_CHECKING:
    from hicache_nsa.cache.deferred import DeferredInsert


class Copy:
    """Positions ``start .. end - 1`` of the path down to ``node`` of ``tree``, page by page.

    Once ``invalidate`` has set that tree aside the copy is *void*: it ends, nothing is published.
    failed_elsewhere: another rank's copy failed, and so has this one, whatever its bytes are.
    """

    __slots__ = (
        "device_pages",
        "end",
        "failed_elsewhere",
        "host_pages",
        "node",
        "number",
        "page_size",
        "start",
        "ticket",
        "tree",
    )

    def __init__(
        self,
        number: int,
        ticket: Ticket,
        tree: RadixTree,
        node: Node,
        start: int,
        device_pages: PageIds,
        host_pages: PageIds,
        page_size: int,
    ) -> None:
        self.number = number
        self.ticket = ticket
        self.tree = tree
        self.node = node
        self.start = start
        self.end = start + len(device_pages) * page_size
        self.device_pages = device_pages
        self.host_pages = host_pages
        self.page_size = page_size
        self.failed_elsewhere = False

    @property
    def error(self) -> str | None:
        """Why the copy failed, here or on another rank; None while in flight or all went well."""
        if self.ticket.error is None and self.failed_elsewhere:
            return "this copy failed on another rank"
        return self.ticket.error

    def nodes(self) -> list[Node]:
        """The nodes of the range as they are now, from the top."""
        nodes: list[Node] = []
        node = self.node
        while node.parent is not None and node.end > self.start:
            if node.start < self.end:
                nodes.append(node)
            node = node.parent
        nodes.reverse()
        return nodes

    def let_go(self) -> None:
        """Its nodes do not name it any more."""
        for node in self.nodes():
            if node.load is self:
                node.load = None
            if node.save is self:
                node.save = None

    def slice(self, start: int, end: int) -> slice:
        """Indices of the pages for positions ``start .. end - 1``."""
        return slice(
            (max(start, self.start) - self.start) // self.page_size,
            (min(end, self.end) - self.start) // self.page_size,
        )


class Save(Copy):
    """Device to host."""

    __slots__ = ()


class Load(Copy):
    """Host to device.

    above: loads in flight that bring earlier pages of the same prefix. If one of them fails, what
        this one brings has a gap before it.
    users: LoadBacks that have not been released, and handles of inserts behind it.
    acked: taken in by ``poll``. failed: *disowned*, what it brings is not published, since it or
        one above it failed or it was cancelled.
    inserted_behind: an insert stands behind it, so that it can't be cancelled any more.
    surplus: pages that the tree did not take; freed at the last release.
    reads_wrong_pages: another load found that some of its host pages are not what was saved.
    condemned: host pages that are in the tree no more and free when this load has ended.
    waiting: inserts that stand behind this load.
    """

    __slots__ = (
        "above",
        "acked",
        "condemned",
        "failed",
        "inserted_behind",
        "reads_wrong_pages",
        "surplus",
        "users",
        "waiting",
    )

    def __init__(
        self,
        number: int,
        ticket: Ticket,
        tree: RadixTree,
        node: Node,
        start: int,
        device_pages: PageIds,
        host_pages: PageIds,
        page_size: int,
        above: tuple[Load, ...],
    ) -> None:
        super().__init__(number, ticket, tree, node, start, device_pages, host_pages, page_size)
        self.above = above
        self.users = 0
        self.acked = False
        self.failed = False
        self.inserted_behind = False
        self.surplus: PageIds = device_pages[:0]
        self.reads_wrong_pages = False
        self.condemned: PageIds = NO_PAGES
        self.waiting: list[DeferredInsert] = []

    @property
    def error(self) -> str | None:
        """See ``Copy``."""
        error = super().error
        if error is None and self.reads_wrong_pages:
            return "another load found host pages of this one that are not what was saved"
        return error

    @property
    def landed(self) -> bool:
        """Taken in, and its bytes are right."""
        return self.acked and not self.failed

    def disown(self) -> None:
        """What it brings will not be published: nobody joins it from now on."""
        self.failed = True
        self.let_go()

    def pages_of(self, start: int, end: int) -> PageIds:
        """Device pages for positions ``start .. end - 1``."""
        return self.device_pages[self.slice(start, end)]

    def has(self, indices: npt.NDArray[np.int64], pages: PageIds, prefix: Prefix) -> bool:
        """Whether ``pages`` are its pages for those whole pages of that prefix.

        Where the path runs through its nodes the prefix is the same. Nodes that have been taken
        out of the tree meanwhile, since a host copy was wrong, are compared token by token.
        """
        places = indices - self.start // self.page_size
        if places[0] < 0 or places[-1] >= len(self.device_pages):
            return False
        if self.node.removed:
            reached = _common_tokens(self.node.path(), prefix) // self.page_size
        else:
            mine = set(self.nodes())
            ends = [min(node.end, prefix.end) for node in prefix.path if node in mine]
            reached = max(ends, default=0) // self.page_size
        return bool(indices[-1] < reached and np.array_equal(self.device_pages[places], pages))


def _common_tokens(path: list[Node], prefix: Prefix) -> int:
    """Leading tokens that the nodes of ``path`` share with ``prefix``."""
    top = path[0].parent
    if not isinstance(top, Root) or top.namespace != prefix.namespace:
        return 0
    for node in path:
        end = min(node.end, len(prefix.tokens))
        common = node.key.common_prefix(prefix.tokens.slice(node.start, max(end, node.start)))
        if common < node.end - node.start:
            return node.start + common
    return path[-1].end


def disown_below(loads: Iterable[Load], failed: Load) -> None:
    """Loads below a failed one have a gap before them: nobody joins them, nothing is kept.

    So have those below them, which may not stand on the failed one itself: an insert may have
    brought its pages since.
    """
    gone = {failed}
    for load in loads:  # a load is younger than those above it
        if not load.failed and not gone.isdisjoint(load.above):
            load.disown()
            gone.add(load)


def drop_user(ledger: Ledger, load: Load) -> None:
    """A LoadBack or a handle lets go of ``load``."""
    load.users -= 1
    if load.users == 0 and load.acked:
        free_surplus(ledger, load)


def free_surplus(ledger: Ledger, load: Load) -> None:
    """Nobody uses a finished load any more: free what the tree did not take."""
    pages = load.surplus
    load.surplus = NO_PAGES
    ledger.free(pages, None)
