"""Trees that ``invalidate`` set aside. Nothing of them is ever used again; their pages come free
bit by bit: some in each ``poll``, and as many as are needed wherever pages are needed.

Pages that a copy in flight reads or writes are freed at its ack and not before. Whether a page of
a retired tree is free already or still idle makes no difference to any decision.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hicache_nsa._core import Fence
from hicache_nsa.cache.copies import Load, Save
from hicache_nsa.cache.deferred import DeferredInsert
from hicache_nsa.cache.losses import drop_all
from hicache_nsa.cache.state import CacheState
from hicache_nsa.errors import require_equal
from hicache_nsa.plan import Holder, Owner
from hicache_nsa.tokens import NO_PAGES, PageIds, concat_pages
from hicache_nsa.tree import Node, RadixTree
from hicache_nsa.tree.node import forget_below

STEPS = 128
"""Steps of one bit of reclaiming. A step takes a few microseconds at most: to go down to a node,
to take one apart, or to give up a page that was kept for a load or a handle."""


class RetiredPages:
    """The pages that the nodes of a retired tree had in one tier.

    idle: in its nodes, and no copy in flight reads them: as good as free.
    read: copies in flight read them. They are free at the last ack, wherever their node is.
    """

    def __init__(self, cached: int, reads: Sequence[PageIds]) -> None:
        self._pages, self._readers = np.unique(concat_pages(reads), return_counts=True)
        self.read = len(self._pages)
        self.idle = cached - self.read

    def take(self, pages: PageIds) -> PageIds:
        """Pages of nodes that go now: those that are idle, to be freed."""
        idle = self._idle(pages)
        self.idle -= len(idle)
        return idle

    def end_read(self, pages: PageIds) -> PageIds:
        """A copy that read ``pages`` is over: those that no other one reads, to be freed."""
        places = np.searchsorted(self._pages, pages)
        self._readers[places] -= 1
        over: PageIds = pages[self._readers[places] == 0]
        self.read -= len(over)
        return over

    def in_use(self, pages: PageIds) -> PageIds:
        """All that is not free yet, given the pages of the nodes that are left."""
        idle = self._idle(pages)
        require_equal("idle pages of a retired tree", self.idle, len(idle))
        read = self._pages[self._readers > 0]
        require_equal("pages of a retired tree that are read", self.read, len(read))
        return np.concatenate([idle, read])

    def _idle(self, pages: PageIds) -> PageIds:
        if len(self._pages):
            pages = pages[~np.isin(pages, self._pages)]
        return pages


class Retired:
    """One tree that was set aside, and everything that belonged to its time.

    fence: the work that may still use its device pages; None when there is none (any more).
    device, host: the pages of its nodes. kept: device pages that were kept for loads or handles
        of its time. loading: device pages of its loads in flight. copies: all its copies in flight.
    """

    def __init__(
        self,
        tree: RadixTree,
        fence: Fence | None,
        holders: dict[int, Holder],
        loads: list[Load],
        saves: list[Save],
    ) -> None:
        self.tree = tree
        self.fence = fence
        self.device = RetiredPages(tree.device.cached, [save.device_pages for save in saves])
        condemned = sum(len(load.condemned) for load in loads)  # are read, so are free like these
        reads = [load.host_pages for load in loads]
        self.host = RetiredPages(tree.host.cached + condemned, reads)
        self.loading = sum(len(load.device_pages) for load in loads)
        self.kept = len(holders) - self.loading
        self.copies = len(loads) + len(saves)
        self._holders = holders
        self._in_flight = frozenset(loads)
        self._way: list[Node] = []  # from a root down to the node that is next

    def __del__(self) -> None:
        forget_below(self._way)  # the garbage collector does not see nodes

    @property
    def idle_device_pages(self) -> int:
        """Device pages that can be freed now."""
        return self.device.idle + self.kept

    def take_apart(self, steps: int) -> tuple[int, PageIds, PageIds, int]:
        """Go on for up to ``steps`` steps.

        Returns the steps taken (fewer: nothing more can be freed before the next ack), the device
        and the host pages to free, and the tokens of inserts behind loads that are lost.
        """
        device: list[PageIds] = []
        host: list[PageIds] = []
        taken = 0
        while taken < steps and (self._way or self.tree.roots):
            taken += 1
            if not self._way:
                self._way.append(self.tree.roots.popitem()[1])
            elif self._way[-1].children:
                self._way.append(self._way[-1].children.pop())
            else:
                node = self._way.pop()
                device.append(node.device_pages)
                host.append(node.host_pages)
                node.value = node.host_value = node.load = node.save = None
                node.removed = True
        queued = max(tier.shrink(2 * steps) for tier in (self.tree.device, self.tree.host))
        before = len(self._holders)
        kept, lost = self._give_up(steps - taken)
        taken = max(taken + before - len(self._holders), min(queued, steps))
        device_pages = np.concatenate([self.device.take(concat_pages(device)), kept])
        host_pages = self.host.take(concat_pages(host))
        return taken, device_pages, host_pages, lost * self.tree.page_size

    def _give_up(self, pages: int) -> tuple[PageIds, int]:
        """Look at up to ``pages`` of those that loads and inserts had: the ones that were kept for
        loads and handles, and how many of these are lost with an insert behind a load in flight.
        """
        kept: list[int] = []
        lost = 0
        while pages > 0 and self.kept:
            pages -= 1
            page, holder = self._holders.popitem()
            if holder not in self._in_flight:
                kept.append(page)
                self.kept -= 1
                lost += isinstance(holder, DeferredInsert) and not holder.settled
        return np.array(kept, dtype=np.int64), lost

    def pages_in_use(self, loads: Sequence[Load]) -> tuple[PageIds, PageIds]:
        """For ``check``: device and host pages that are not free yet, given its loads in flight."""
        nodes = list(self._way)
        for node in [*self._way, *self.tree.roots.values()]:
            nodes.extend(_below(node))
        loading = concat_pages([load.device_pages for load in loads])
        require_equal("retired pages being loaded", self.loading, len(loading))
        kept = [page for page, holder in self._holders.items() if holder not in self._in_flight]
        require_equal("retired pages kept for loads and handles", self.kept, len(kept))
        device = self.device.in_use(concat_pages([node.device_pages for node in nodes]))
        host = self.host.in_use(concat_pages([node.host_pages for node in nodes]))
        return np.concatenate([device, loading, np.array(kept, dtype=np.int64)]), host


def _below(node: Node) -> list[Node]:
    nodes = list(node.children.values())
    for child in nodes:
        nodes.extend(child.children.values())
    return nodes


# -- setting aside ----------------------------------------------------------------------------


def retire(state: CacheState, fence: Fence | None) -> None:
    """Set the tree aside, with all it has, and go on with an empty one."""
    tree = state.tree
    loads = [load for load in state.loads if load.tree is tree]
    saves = [save for save in state.saves if save.tree is tree]
    state.retired[tree] = Retired(tree, fence, state.ledger.set_aside(), loads, saves)
    state.condemned = 0
    for load in loads:
        load.condemned = NO_PAGES
    drop_all(state)
    state.tree = tree.successor()
    state.uses.begin_anew()


def refuse_retired(state: CacheState, pages: PageIds) -> None:
    """``ValueError`` that names the first page that belonged to a tree set aside."""
    if not state.retired:
        return
    owner = state.ledger.owner[pages]
    old = (owner == Owner.TREE) | (owner == Owner.PENDING)
    wrong = np.flatnonzero(old & (state.ledger.version[pages] != state.version))
    if len(wrong):
        index = int(wrong[0])
        raise ValueError(
            f"pages[{index}]={pages[index]} was given up by invalidate(); insert takes pages the "
            f"caller owns"
        )


# -- what is there ----------------------------------------------------------------------------


def idle_device_pages(state: CacheState) -> int:
    """Device pages of retired trees that can be freed now."""
    return sum(retired.idle_device_pages for retired in state.retired.values())


def idle_host_pages(state: CacheState) -> int:
    """Host pages of retired trees that can be freed now."""
    return sum(retired.host.idle for retired in state.retired.values())


def read_device_pages(state: CacheState) -> int:
    """Device pages of retired trees that saves in flight read."""
    return sum(retired.device.read for retired in state.retired.values())


def read_host_pages(state: CacheState) -> int:
    """Host pages of retired trees that loads in flight read."""
    return sum(retired.host.read for retired in state.retired.values())


def void_loading_pages(state: CacheState) -> int:
    """Device pages of void loads in flight."""
    return sum(retired.loading for retired in state.retired.values())


# -- freeing ----------------------------------------------------------------------------------


def reclaim(state: CacheState, steps: int = STEPS) -> bool:
    """Take up to ``steps`` steps, the oldest tree first; False when no page is idle any more."""
    for tree, retired in list(state.retired.items()):
        taken, device_pages, host_pages, lost = retired.take_apart(steps)
        _free_device(state, retired, device_pages)
        state.host.free(host_pages)
        state.counters.drop_flushed(lost)
        if taken == steps:
            return True
        steps -= taken
        if retired.copies == 0:
            del state.retired[tree]
    return False


def reclaim_all(state: CacheState) -> None:
    """Free everything of retired trees but what copies in flight use."""
    while reclaim(state):
        pass


def reclaim_device(state: CacheState, num_pages: int) -> int:
    """Free ``num_pages`` idle device pages, a few more or as many as there are: how many."""
    pool = state.ledger.pool
    before = pool.free_pages
    while pool.free_pages - before < num_pages and idle_device_pages(state):
        reclaim(state)
    return pool.free_pages - before


def reclaim_host(state: CacheState, num_pages: int) -> int:
    """The same for host pages."""
    before = state.host.free_pages
    while state.host.free_pages - before < num_pages and idle_host_pages(state):
        reclaim(state)
    return state.host.free_pages - before


def end_save(state: CacheState, retired: Retired, save: Save) -> None:
    """A void save has ended: nothing is published, its pages on both tiers are free."""
    retired.copies -= 1
    _free_device(state, retired, retired.device.end_read(save.device_pages))
    state.host.free(save.host_pages)
    state.filling -= len(save.host_pages)
    state.counters.failed_saves += save.error is not None


def end_load(state: CacheState, retired: Retired, load: Load) -> None:
    """A void load has ended: nothing is published, its pages on both tiers are free.

    Inserts behind it end with it; their pages are among those kept.
    """
    retired.copies -= 1
    retired.loading -= len(load.device_pages)
    load.acked = True
    load.failed = load.error is not None
    load.waiting.clear()
    _free_device(state, retired, load.device_pages)
    state.host.free(retired.host.end_read(load.host_pages))
    state.counters.failed_loads += load.failed


def _free_device(state: CacheState, retired: Retired, pages: PageIds) -> None:
    if retired.fence is not None and retired.fence.done():
        retired.fence = None
    state.ledger.reclaim(pages, retired.fence)
