"""Everything one cache is made of. The functions of this package work on it under its lock."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hicache_nsa._core import Fence, PageHistory
from hicache_nsa.cache.copies import Load, Save
from hicache_nsa.cache.handles import Epoch
from hicache_nsa.cache.ledger import Ledger
from hicache_nsa.cache.pins import Pins
from hicache_nsa.cache.use_times import AGE_BOUNDS, UseTimes
from hicache_nsa.cache.write_policy import WritePolicy
from hicache_nsa.formats import PoolFormat
from hicache_nsa.histogram import Histogram
from hicache_nsa.pools import HostPool
from hicache_nsa.stats import Counters
from hicache_nsa.streams import Stream
from hicache_nsa.transfer import TransferEngine
from hicache_nsa.tree import RadixTree

if TYPE_CHECKING:
    from hicache_nsa.cache.event_log import EventRecorder
    from hicache_nsa.cache.retired import Retired


FEWEST_KNOWN = 1024
MOST_KNOWN = (1 << 29) - 1


@dataclass
class CacheState:
    """Parts of a cache.

    loads, saves: copies in flight, oldest first.
    pins: locks that end by themselves.
    epoch: changes at every flush. version: changes at every ``invalidate``.
    retired: trees that ``invalidate`` set aside, the oldest first, until nothing of them is left.
    filling: host pages that saves in flight are writing.
    condemned: host pages that have left the tree and that loads in flight still read.
    failed_in_a_row: saves taken in since the last one that went well, or since pages were dropped
        unsaved for a caller.
    unstarted_saves: saves that could not be submitted: the engine knows nothing of them.
    spare: share of each tier's pages that eviction leaves free.
    low_water: share of the device pages that write back keeps free ahead of need.
    recorder: writes down KV events; None: nobody asked for them.
    history: what became of pages; it knows at least twice as many as both tiers have.
    uses: when pages were used last. device_ages, host_ages: seconds, of the pages evicted.
    """

    format: PoolFormat
    tree: RadixTree
    ledger: Ledger
    host: HostPool
    engine: TransferEngine
    load_back_threshold: int
    stream: Stream
    epoch: Epoch
    pins: Pins
    write_policy: WritePolicy
    spare: float = 0.0
    low_water: float = 0.0
    version: int = 0
    loads: deque[Load] = field(default_factory=deque)
    saves: deque[Save] = field(default_factory=deque)
    retired: dict[RadixTree, Retired] = field(default_factory=dict)
    filling: int = 0
    condemned: int = 0
    failed_in_a_row: int = 0
    unstarted_saves: int = 0
    copies: int = 0
    counters: Counters = field(default_factory=Counters)
    recorder: EventRecorder | None = None
    history: PageHistory = field(init=False)
    uses: UseTimes = field(default_factory=UseTimes)
    device_ages: Histogram = field(default_factory=lambda: Histogram(AGE_BOUNDS))
    host_ages: Histogram = field(default_factory=lambda: Histogram(AGE_BOUNDS))

    def __post_init__(self) -> None:
        known = 2 * (self.ledger.pool.num_pages + self.host.num_pages)
        self.history = PageHistory(min(max(known, FEWEST_KNOWN), MOST_KNOWN))

    def __del__(self) -> None:
        for copy in (*self.loads, *self.saves):
            copy.let_go()  # the garbage collector does not see that nodes refer to copies

    @property
    def page_size(self) -> int:
        """Tokens a page."""
        return self.format.page_size

    def fence(self, stream: Stream) -> Fence | None:
        """What is queued now on ``stream``, or on the constructor's where it is None."""
        return self.engine.record(self.stream if stream is None else stream)

    def next_copy(self) -> int:
        """A number for the next copy, in the order of submission."""
        self.copies += 1
        return self.copies
