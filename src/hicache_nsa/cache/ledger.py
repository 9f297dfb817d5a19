"""Who owns each device page: nobody, a caller, the tree, or a load or insert that isn't over."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from hicache_nsa._core import Fence
from hicache_nsa.errors import require_equal
from hicache_nsa.plan import Holder, Owner
from hicache_nsa.pools import DevicePool
from hicache_nsa.tokens import PageIds, concat_pages

FEW = 64
"""Fences kept without a look at whether they are done."""
FREE = int(Owner.FREE)  # looking a member up takes longer than all else that eviction does here
_OWNERS = {
    Owner.FREE: "free or reserved",
    Owner.CALLER: "a caller's",
    Owner.TREE: "cached",
    Owner.PENDING: "with a load in flight or an insert behind one",
}


class Ledger:
    """The owner of every device page, on top of the pool's free list.

    owner: int8 [num_pages], an ``Owner``.
    callers, pending: how many pages are theirs.
    version: int64 [num_pages], the cache's version when the page was allocated.
    holder: who has a PENDING page.
    Fences of streams that may still use a page are kept until they are done: a later copy into or
    out of the page waits for them.
    """

    def __init__(self, pool: DevicePool) -> None:
        self.pool = pool
        self.owner: npt.NDArray[np.int8] = np.zeros(pool.num_pages, dtype=np.int8)
        self.version: npt.NDArray[np.int64] = np.zeros(pool.num_pages, dtype=np.int64)
        self.holder: dict[int, Holder] = {}
        self.callers = 0
        self.pending = 0
        self._mark: npt.NDArray[np.int64] = np.zeros(pool.num_pages, dtype=np.int64)
        self._busy: list[tuple[Fence, PageIds]] = []
        self._most_busy = FEW

    # -- moves of ownership ---------------------------------------------------------------------

    def allocate(self, num_pages: int, version: int) -> PageIds:
        """Free pages for a caller; ``OutOfPages`` when there are too few."""
        pages = self.pool.allocate(num_pages)
        self.owner[pages] = Owner.CALLER
        self.version[pages] = version
        self.callers += num_pages
        return pages

    def set_pending(self, pages: PageIds, holder: Holder) -> None:
        """CALLER -> PENDING."""
        self.owner[pages] = Owner.PENDING
        self.holder.update(dict.fromkeys(pages.tolist(), holder))
        self.callers -= len(pages)
        self.pending += len(pages)

    def cache(self, pages: PageIds) -> None:
        """CALLER or PENDING -> TREE: the tree has them now."""
        self._leave(pages)
        self.owner[pages] = Owner.TREE

    def free(self, pages: PageIds, fence: Fence | None) -> None:
        """Any -> FREE. ``fence``: see ``busy``."""
        if not len(pages):
            return
        self._leave(pages)
        self.owner[pages] = Owner.FREE
        self.busy(pages, fence)
        self.pool.free(pages)

    def set_aside(self) -> dict[int, Holder]:
        """Who has the PENDING pages: whoever takes this over frees them, by ``reclaim``."""
        holders, self.holder = self.holder, {}
        self.pending = 0
        return holders

    def reclaim(self, pages: PageIds, fence: Fence | None) -> None:
        """TREE, or PENDING and set aside -> FREE."""
        if len(pages):
            self.owner[pages] = Owner.FREE
            self.busy(pages, fence)
            self.pool.free(pages)

    def evict(self, pages: PageIds) -> None:
        """TREE -> FREE."""
        self.owner[pages] = FREE
        self.pool.free(pages)

    def take_back(self, pages: PageIds) -> None:
        """PENDING -> CALLER."""
        self._leave(pages)
        self.owner[pages] = Owner.CALLER
        self.callers += len(pages)

    def busy(self, pages: PageIds, fence: Fence | None) -> None:
        """Remember that the work behind ``fence`` may still read or write the pages."""
        if fence is not None and len(pages):
            self._busy.append((fence, pages.copy()))
            if len(self._busy) > self._most_busy:  # where no copy asks for them, too
                self._drop_done()
                self._most_busy = max(2 * len(self._busy), FEW)

    def _leave(self, pages: PageIds) -> None:
        owners = self.owner[pages]
        if self.pending:
            pending = pages[owners == Owner.PENDING]
            for page in pending.tolist():
                del self.holder[page]
            self.pending -= len(pending)
        self.callers -= int(np.count_nonzero(owners == Owner.CALLER))

    # -- questions ------------------------------------------------------------------------------

    def fences(self, pages: PageIds) -> list[Fence]:
        """Fences that a copy into or out of ``pages`` has to wait for."""
        self._drop_done()
        return [fence for fence, busy in self._busy if np.isin(pages, busy).any()]

    def _drop_done(self) -> None:
        self._busy = [(fence, busy) for fence, busy in self._busy if not fence.done()]

    def refuse_duplicates(self, pages: PageIds) -> None:
        """``ValueError`` that names the page if an id occurs twice."""
        order = np.arange(len(pages))
        self._mark[pages] = order
        wrong = self._mark[pages] != order
        if wrong.any():
            raise ValueError(f"page {pages[wrong.argmax()]} occurs twice in the list")

    def require_owned(self, pages: PageIds, action: str) -> None:
        """``ValueError`` that names the first page no caller owns."""
        wrong = np.flatnonzero(self.owner[pages] != Owner.CALLER)
        if len(wrong):
            page = int(pages[wrong[0]])
            raise ValueError(
                f"page {page} can't be {action}: it is {_OWNERS[int(self.owner[page])]} "
                f"({len(wrong)} of {len(pages)} pages are not the caller's)"
            )

    def check(self, cached: Iterator[PageIds], retired: PageIds) -> None:
        """Compare with the pages that the tree, and retired trees, have; raise
        ``InvariantError``.
        """
        counts = np.bincount(self.owner, minlength=4)
        old = np.bincount(self.owner[retired], minlength=4)
        distinct = np.count_nonzero(np.bincount(retired))
        require_equal("retired pages, each once", distinct, len(retired))
        require_equal("retired pages that are free or a caller's", int(old[:2].sum()), 0)
        require_equal("callers' pages", self.callers, int(counts[Owner.CALLER]))
        require_equal(
            "pending pages", self.pending, int(counts[Owner.PENDING] - old[Owner.PENDING])
        )
        require_equal("holders", len(self.holder), self.pending)
        in_tree = concat_pages(cached)
        distinct = np.count_nonzero(np.bincount(in_tree))
        require_equal("pages in the tree, each once", distinct, len(in_tree))
        require_equal("cached pages", len(in_tree), int(counts[Owner.TREE] - old[Owner.TREE]))
        owners = set(self.owner[in_tree].tolist())
        require_equal("owners of the tree's pages", owners - {Owner.TREE}, set())
        in_use = self.pool.total_pages - self.pool.free_pages
        known = self.callers + self.pending + len(in_tree) + len(retired)
        require_equal("pages in use", known, in_use)
