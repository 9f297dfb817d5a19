"""Who owns each device page: nobody, a caller, the tree, or a load or insert that isn't over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from hicache_nsa._core import Fence
from hicache_nsa.errors import require_equal
from hicache_nsa.plan.ownership import Owner
from hicache_nsa.pools import DevicePool
from hicache_nsa.tokens import PageIds

_OWNERS = {
    Owner.FREE: "free or reserved",
    Owner.CALLER: "a caller's",
    Owner.TREE: "cached",
    Owner.HELD: "held by a load in flight or an insert behind one",
}


class Ledger:
    """The owner of every device page, on top of the pool's free list.

    state: int8 [num_pages], an ``Owner``.
    version: int64 [num_pages], the cache's version when the page was allocated.
    holder: who has a HELD page.
    Fences of streams that may still use a page are kept until they are done: a later copy into or
    out of the page waits for them.
    """

    def __init__(self, pool: DevicePool) -> None:
        self.pool = pool
        self.state: npt.NDArray[np.int8] = np.zeros(pool.num_pages, dtype=np.int8)
        self.version: npt.NDArray[np.int64] = np.zeros(pool.num_pages, dtype=np.int64)
        self.holder: dict[int, Any] = {}
        self.owned = 0
        self.held = 0
        self._mark: npt.NDArray[np.int64] = np.zeros(pool.num_pages, dtype=np.int64)
        self._busy: list[tuple[Fence, PageIds]] = []

    # -- moves of ownership ---------------------------------------------------------------------

    def allocate(self, num_pages: int, version: int) -> PageIds:
        """Free pages for a caller; ``OutOfPages`` when there are too few."""
        pages = self.pool.allocate(num_pages)
        self.state[pages] = Owner.CALLER
        self.version[pages] = version
        self.owned += num_pages
        return pages

    def hold(self, pages: PageIds, holder: Any) -> None:
        """CALLER -> HELD."""
        self.state[pages] = Owner.HELD
        self.holder.update(dict.fromkeys(pages.tolist(), holder))
        self.owned -= len(pages)
        self.held += len(pages)

    def cache(self, pages: PageIds) -> None:
        """CALLER or HELD -> TREE: the tree has them now."""
        self._leave(pages)
        self.state[pages] = Owner.TREE

    def free(self, pages: PageIds, fence: Fence | None) -> None:
        """Any -> FREE. ``fence``: see ``busy``."""
        if not len(pages):
            return
        self._leave(pages)
        self.state[pages] = Owner.FREE
        self.busy(pages, fence)
        self.pool.free(pages)

    def take_back(self, pages: PageIds) -> None:
        """HELD -> CALLER."""
        self._leave(pages)
        self.state[pages] = Owner.CALLER
        self.owned += len(pages)

    def busy(self, pages: PageIds, fence: Fence | None) -> None:
        """Remember that the work behind ``fence`` may still read or write the pages."""
        if fence is not None and len(pages):
            self._busy.append((fence, pages.copy()))

    def _leave(self, pages: PageIds) -> None:
        states = self.state[pages]
        held = pages[states == Owner.HELD]
        for page in held.tolist():
            del self.holder[page]
        self.held -= len(held)
        self.owned -= int(np.count_nonzero(states == Owner.CALLER))

    # -- questions ------------------------------------------------------------------------------

    def fences(self, pages: PageIds) -> list[Fence]:
        """Fences that a copy into or out of ``pages`` has to wait for."""
        self._busy = [(fence, busy) for fence, busy in self._busy if not fence.done()]
        return [fence for fence, busy in self._busy if np.isin(pages, busy).any()]

    def refuse_duplicates(self, pages: PageIds) -> None:
        """``ValueError`` that names the page if an id occurs twice."""
        order = np.arange(len(pages))
        self._mark[pages] = order
        wrong = np.flatnonzero(self._mark[pages] != order)
        if len(wrong):
            raise ValueError(f"page {pages[wrong[0]]} occurs twice in the list")

    def require_owned(self, pages: PageIds, action: str) -> None:
        """``ValueError`` that names the first page no caller owns."""
        wrong = np.flatnonzero(self.state[pages] != Owner.CALLER)
        if len(wrong):
            page = int(pages[wrong[0]])
            raise ValueError(
                f"page {page} can't be {action}: it is {_OWNERS[Owner(self.state[page])]} "
                f"({len(wrong)} of {len(pages)} pages are not the caller's)"
            )

    def check(self, cached: Iterator[PageIds]) -> None:
        """Compare with the pages that the tree has; raise ``InvariantError``."""
        counts = np.bincount(self.state, minlength=4)
        require_equal("owned pages", self.owned, int(counts[Owner.CALLER]))
        require_equal("held pages", self.held, int(counts[Owner.HELD]))
        require_equal("holders", len(self.holder), self.held)
        in_tree = np.concatenate([np.empty(0, dtype=np.int64), *cached])
        require_equal("pages in the tree, each once", len(np.unique(in_tree)), len(in_tree))
        require_equal("cached pages", len(in_tree), int(counts[Owner.TREE]))
        require_equal(
            "states of the tree's pages", set(self.state[in_tree].tolist()) - {Owner.TREE}, set()
        )
        in_use = self.pool.total_pages - self.pool.free_pages
        require_equal("pages in use", self.owned + self.held + len(in_tree), in_use)
