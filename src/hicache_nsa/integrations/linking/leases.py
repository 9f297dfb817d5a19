"""Leases: what a lookup has promised to a request stays until that request loads it.

SGLang looks up, decides on all ranks, and loads in a later call; a request whose pages vanish in
between is aborted. A lease ends with the request's next lookup, its load, or after a time limit: a
request that never comes back must not keep pages for ever.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from hicache_nsa.page_index import PageIndex
from hicache_nsa.tokens import PageIds


class _Lease(NamedTuple):
    keys: list[str]
    ends: float


class Leases:
    """Pins of ``index``, one lease a request. ``clock`` gives seconds."""

    def __init__(
        self, index: PageIndex, seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._index = index
        self._seconds = seconds
        self._clock = clock
        self._leases: OrderedDict[str, _Lease] = OrderedDict()  # the one that ends first, first

    def __len__(self) -> int:
        return len(self._leases)

    def grant(self, rid: str, keys: list[str]) -> None:
        """Keep the pages of ``keys`` (all HIT) for ``rid``, in place of what it had."""
        old = self._leases.pop(rid, None)
        if old is None or old.keys != keys:
            if keys:
                self._index.pin(keys)
            if old is not None:
                self._index.unpin(old.keys)
        if keys:
            self._leases[rid] = _Lease(keys, self._clock() + self._seconds)

    def take(self, rid: str, keys: list[str]) -> PageIds:
        """End the lease of ``rid`` and hand its pins of ``keys`` over; ``index.unpin`` ends them.

        Raises:
            KeyError: names the first key that is no HIT any more (the lease had ended); no pins.
            TypeError, ValueError: keys that are none; nothing changed.
        """
        try:
            pages = self._index.pin(keys)
        except KeyError:
            self.end(rid)
            raise
        self.end(rid)
        return pages

    def end(self, rid: str) -> None:
        """End the lease of ``rid``, if there is one."""
        lease = self._leases.pop(rid, None)
        if lease is not None:
            self._index.unpin(lease.keys)

    def expire(self) -> int:
        """End those whose time is over; returns how many."""
        now = self._clock()
        ended = 0
        while self._leases:
            rid, lease = next(iter(self._leases.items()))
            if lease.ends > now:
                break
            self.end(rid)
            ended += 1
        return ended

    def end_all(self) -> None:
        """End all of them."""
        for rid in list(self._leases):
            self.end(rid)
