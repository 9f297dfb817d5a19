"""Which chunks are on host: what a scheduler decides, without any memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from hicache_nsa.page_index import HIT, MISS, IndexStats, PageIndex
from hicache_nsa.tokens import PageIds

Key = bytes


class ChunkStore(NamedTuple):
    """What is to be stored: key ``keys[i]`` in chunk ``chunks[i]`` (int64); what made room."""

    keys: list[Key]
    chunks: PageIds
    evicted: list[Key]


@dataclass
class ChunkCounts:
    """Chunks since the last ``take_counts``. refused: offered to the host tier, which was full."""

    stored: int = 0
    loaded: int = 0
    evicted: int = 0
    refused: int = 0


class HostChunks:
    """The index of the host tier, with the leases and pins of one scheduler. For one thread.

    A *lease* keeps a chunk from the lookup that found it to the end of the scheduler's step; a
    *pin* from ``load`` to ``loaded``. Neither is ever evicted.
    spare: chunks that a store which has to evict leaves free, as far as they may go.
    """

    def __init__(self, chunks: int, policy: str = "lru", spare: int = 0) -> None:
        self.chunks = chunks
        self.policy = policy
        self._spare = [b"spare %d" % i for i in range(spare)]
        self._counts = ChunkCounts()
        self._leased: dict[Key, None] = {}  # in the order of the lookups
        self._kept: list[Key] = []  # the leases that are pins: those before the last store
        self._index = PageIndex(chunks, policy)

    def lookup(self, key: Key) -> int:
        """MISS, PENDING (being stored) or HIT; a hit is leased to the end of the step."""
        if self._index.prefix((key,)):
            self._leased[key] = None
            return HIT
        return int(self._index.lookup((key,))[0])

    def end_step(self) -> None:
        """The leases end; what was found counts as used."""
        if self._kept:
            self._index.unpin(tuple(self._kept))
        if self._leased:
            self._index.touch(tuple(self._leased))
        self._kept.clear()
        self._leased.clear()

    def load(self, keys: Sequence[Key]) -> PageIds:
        """The chunks of ``keys``, pinned until ``loaded``.

        Raises:
            KeyError: one of them is not on host; nothing changed.
        """
        return self._index.pin(keys)

    def loaded(self, keys: Collection[Key]) -> None:
        """A load has ended, and its pins."""
        self._index.unpin(tuple(keys))
        self._counts.loaded += len(keys)

    def touch(self, keys: Sequence[Key]) -> None:
        """Used now; keys that are not on host are passed over."""
        self._index.touch(keys)

    def store(self, keys: Sequence[Key], parent: Key | None = None) -> ChunkStore | None:
        """Room for those of ``keys`` (each the parent of the next) that are not on host yet.

        parent: the key above the first one, if it is known. None: there is no room for all of
        them, and nothing changed. Those that are on host count as used.

        Raises:
            ValueError: a key stands there twice; nothing changed.
        """
        self._keep_leases()
        if parent is not None and self._index.lookup((parent,))[0] == MISS:
            parent = None
        store = self._index.begin_store(keys, parent=parent)  # raises before anything is touched
        self._index.touch(keys)
        if store is None:
            self._counts.refused += int((self._index.lookup(keys) == MISS).sum())
            return None
        evicted = cast("list[Key]", store.evicted)
        if evicted:
            evicted = evicted + self._evict_spare()
        self._counts.evicted += len(evicted)
        return ChunkStore(cast("list[Key]", store.keys), store.pages, evicted)

    def stored(self, keys: Collection[Key], success: bool) -> list[Key]:
        """A store has ended: ``keys`` are hits now, but for those returned, which are gone, and
        others below them with them.
        """
        if not success:
            self._keep_leases()
        dropped = cast("list[Key]", self._index.finish_store(tuple(keys), success))
        self._counts.stored += len(keys) - len(set(dropped) & set(keys))
        return dropped

    def reset(self) -> int:
        """Forget everything; returns how many chunks held something.

        Pins and stores in flight are forgotten too: their ends must not be reported. The next
        store may get the same chunks, so whoever copies has to finish what is in flight first.
        """
        dropped = len(self._index)
        self._index = PageIndex(self.chunks, self.policy)
        self._leased.clear()
        self._kept.clear()
        return dropped

    def stats(self) -> IndexStats:
        """Chunks by state."""
        return self._index.stats()

    def take_counts(self) -> ChunkCounts:
        """What happened since the last call."""
        counts, self._counts = self._counts, ChunkCounts()
        return counts

    def check(self) -> None:
        """Raise ``InvariantError`` if the index's books don't balance."""
        self._index.check()

    def _keep_leases(self) -> None:
        """Pin what is leased: pages may go from here on. A lookup itself costs no pin that way."""
        if self._leased:
            new = tuple(self._leased)
            self._index.pin(new)
            self._kept.extend(new)
            self._leased.clear()

    def _evict_spare(self) -> list[Key]:
        """Evict until the spare chunks are free, or as many of them as may go.

        Room is made for them and given back at once; where it can't be, for half as many.
        """
        free = self._index.stats().free_pages
        evicted: list[Key] = []
        more = len(self._spare) - free
        while more > 0:
            room = self._index.begin_store(self._spare[: free + more])
            if room is None:
                more //= 2
                continue
            self._index.finish_store(room.keys, False)
            evicted += cast("list[Key]", room.evicted)
            free += more
            more = min(more, len(self._spare) - free)
        return evicted
