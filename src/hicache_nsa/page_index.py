"""``PageIndex``: host pages by the hash of what they hold, for engines that hand out hashes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from hicache_nsa import _core
from hicache_nsa.errors import native_check
from hicache_nsa.formats.checks import count_of, one_of, positive_int
from hicache_nsa.pools import MAX_PAGES
from hicache_nsa.tokens import PageIds

Key: TypeAlias = "bytes | str"
Keys: TypeAlias = "Sequence[bytes] | Sequence[str] | Sequence[Key]"

MISS, PENDING, HIT = 0, 1, 2  # what ``lookup`` says of a key
POLICIES = tuple(_core.eviction_policies().split(", "))
_INT32 = 1 << 31


@dataclass(frozen=True)
class Store:
    """What ``begin_store`` gives: write ``pages[i]`` with what ``keys[i]`` names.

    keys: those that got pages, in the order of the call, as they were given there. Finish each.
    pages: int64 [len(keys)], ascending, neighbours where possible.
    evicted: the keys that were dropped to make room, children before parents.
    """

    keys: list[Key]
    pages: PageIds
    evicted: list[Key]


@dataclass(frozen=True)
class IndexStats:
    """Pages of an index by state: free, hit, pending and withheld add up to ``total_pages``.

    withheld_pages: of dropped keys, until their last unpin or the end of their store.
    pinned_pages: those of the hits that are pinned.
    free_extents: runs of neighbouring pages that the free pages form; the longest one's pages.
    evicted_keys, failed_keys, left_out_keys: since the index was made: dropped to make room, ended
        by ``finish_store(keys, False)``, not stored because of a gap above them.
    """

    policy: str
    total_pages: int
    free_pages: int
    hit_pages: int
    pending_pages: int
    withheld_pages: int
    pinned_pages: int
    free_extents: int
    largest_free_extent: int
    evicted_keys: int
    failed_keys: int
    left_out_keys: int


class PageIndex:
    """Host pages by the hash of what they hold, for engines that hand out hashes of pages, not
    tokens. Knows page ids only, no memory.

    pages: how many there are, 0 .. pages - 1. policy: which key goes first when there is no room,
    of those that have none below them, aren't pinned and aren't being stored:

    - ``lru``, ``mru``: the least or the most recently used. ``fifo``, ``filo``: the first or the
      last stored. A store that is finished counts as a use, and so do ``pin`` and ``touch``, key by
      key in the order of the call; ``lookup`` and ``prefix`` do not.
    - ``lfu``: the least often used; ``slru``: those not used since their store before all others;
      ``priority``: the lowest priority; among equals the least recently used.

    A key is 1 to 64 bytes; str is taken as its UTF-8 and is the same key as those bytes. Keys come
    back as they were given to ``begin_store``. ``keys`` is a sequence of them, a list or a tuple
    at best.

    Keys form chains, and none outlives what is above it: eviction takes children before parents,
    and a failed store takes everything below its keys along. *Dropped* means that a key is a miss
    from then on. Its page comes free at once, unless it is pinned or being written; then it is
    withheld until the last ``unpin`` or the ``finish_store``, and until then the key can't be
    stored anew.

    Thread-safe: each call is atomic (it holds the GIL). A call that raises has changed nothing.

    Raises:
        TypeError, ValueError: a number of pages outside 1 .. 2^32 - 2, an unknown policy; in
            every call, keys that are no bytes or str, or not 1 to 64 bytes long.
    """

    def __init__(self, pages: int, policy: str = "lru") -> None:
        count = positive_int(pages, "pages", MAX_PAGES)
        self.policy = one_of(policy, "policy", POLICIES)
        self._native = _core.PageIndex(count, self.policy)

    def lookup(self, keys: Keys) -> npt.NDArray[np.uint8]:
        """MISS (0), PENDING (1, being stored) or HIT (2) for each key; changes nothing.

        A hit may be below a key that is still pending: what can be loaded is ``prefix``.
        """
        return self._native.lookup(keys)

    def prefix(self, keys: Keys) -> int:
        """How many of the first keys are HIT; changes nothing."""
        return self._native.prefix(keys)

    def pin(self, keys: Keys) -> PageIds:
        """The pages of ``keys`` (int64, one a key), kept until as many ``unpin``; counts as a use.

        Pins are counted; a key that stands there twice is pinned twice.

        Raises:
            KeyError: names the first key that is no HIT; nothing was pinned.
        """
        return self._native.pin(keys)

    def unpin(self, keys: Keys) -> None:
        """Take back one pin of each key.

        Raises:
            ValueError: names the first key that has no such pin; nothing was unpinned.
        """
        self._native.unpin(keys)

    def touch(self, keys: Keys) -> None:
        """Count ``keys`` as used now, one after the other; those that are no HIT are ignored."""
        self._native.touch(keys)

    def begin_store(
        self, keys: Keys, *, parent: Key | None = None, priority: int = 0
    ) -> Store | None:
        """Give pages to those of ``keys`` that are a MISS; they are PENDING until finished.

        keys: in chain order: each is the parent of the next, ``parent`` that of the first. Left
            out are those that are HIT or PENDING already (a PENDING one belongs to another store;
            if that fails, what this one stored below it is dropped too), and all that would have
            a gap above: everything, if ``parent`` is a MISS (pass None to begin a chain there),
            else what comes from a key on whose page is still withheld.
        priority: of the new keys, for ``policy="priority"``; fits 32 bits.

        None: not enough pages are free or may go; nothing changed. Neither ``keys``, ``parent`` nor
        anything above them is evicted for it, and no more than needed is.

        Raises:
            ValueError: a key stands there twice.
        """
        priority = count_of(priority, "priority", -_INT32, _INT32 - 1)
        store = self._native.begin_store(keys, parent, priority)
        return None if store is None else Store(*store)

    def finish_store(self, keys: Keys, success: bool) -> list[Key]:
        """End the store of ``keys``, all of one or some of it: written, or not to be had.

        Success makes them HIT. Failure drops them and every key below them: pages come free at
        once, those of pinned keys below at their last ``unpin``, those of keys below that are in
        another store at its ``finish_store``, which then has no HIT to make.

        Returns all keys that this call dropped, and those of ``keys`` that were dropped before:
        each of ``keys`` is HIT or in the list. Of what this call dropped, children before parents.

        Raises:
            ValueError: names the first key that isn't being stored, or is there twice.
        """
        return self._native.finish_store(keys, success)

    def reset(self) -> int:
        """Drop everything; returns how many keys that were (HIT and PENDING).

        Quick, however many they are, unless a page is pinned, withheld or being written. Pages
        that are pinned or being written stay withheld until ``unpin`` and ``finish_store``.
        """
        return self._native.reset()

    def stats(self) -> IndexStats:
        """Pages by state, and what happened since the index was made."""
        return IndexStats(self.policy, **self._native.counts())

    def __len__(self) -> int:
        """Keys in the index, HIT and PENDING."""
        return len(self._native)

    def check(self) -> None:
        """Raise ``InvariantError`` with both sides of the first rule that does not hold."""
        native_check(self._native)
