"""Offloads: device to host, one a node of SGLang's tree, completed first in, first out."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from hicache_nsa.integrations.linking.chains import Chains
from hicache_nsa.integrations.linking.fences import OffloadFences
from hicache_nsa.integrations.linking.slots import host_slots, page_ids_of
from hicache_nsa.page_index import HIT, MISS, PageIndex, Store
from hicache_nsa.tokens import PageIds
from hicache_nsa.transfer import D2H, Ticket, TransferEngine

log = logging.getLogger("hicache_nsa.linking")


@dataclass
class _Offload:
    """A node's pages. stored: the keys this offload writes; the others are there, or pending."""

    keys: list[str]
    stored: list[Any] = field(default_factory=list)
    ticket: Ticket | None = None
    success: bool | None = None


class Offloads:
    """Saves to host pages of ``index`` through ``engine``, in the order of the calls.

    fences: what a copy has to wait for before it reads device pages.
    """

    def __init__(
        self,
        index: PageIndex,
        chains: Chains,
        engine: TransferEngine,
        page_size: int,
        fences: OffloadFences,
    ) -> None:
        self._index = index
        self._chains = chains
        self._engine = engine
        self._page_size = page_size
        self._fences = fences
        self._running: deque[_Offload] = deque()
        self._ended: deque[_Offload] = deque()
        self.stored_pages = 0
        self.failed = 0
        self.refused = 0

    def add(self, keys: list[str], slots: Any) -> None:
        """Store ``keys`` from token ``slots``, as far as they aren't stored yet.

        All or nothing: without room for all of it, it ends as failed, in its turn. Ranks must
        agree on what is in the queue, so it is never left out.

        Raises:
            ValueError: the numbers of keys and slots differ, the slots are no aligned pages, or a
                key stands there twice; nothing changed.
        """
        if len(slots) != len(keys) * self._page_size:
            raise ValueError(f"{len(slots)} slots for {len(keys)} pages of {self._page_size}")
        pages = page_ids_of(host_slots(slots), self._page_size, self._engine.device_pool.num_pages)
        self.poll()
        offload = _Offload(keys)
        store = self._index.begin_store(keys, parent=self._parent(keys[0]))
        self._index.touch(keys)
        if store is None:
            self.refused += 1
            offload.success = False
        elif store.keys:
            self._copy(offload, store, pages)
        self._running.append(offload)

    def add_failed(self, keys: list[str]) -> None:
        """Put an offload in the queue that stores nothing and ends as failed."""
        self._running.append(_Offload(keys, success=False))

    def _parent(self, key: str) -> str | None:
        parent = self._chains.parent_of(key)
        if parent is None or self._index.lookup([parent])[0] == MISS:
            return None
        return parent

    def _copy(self, offload: _Offload, store: Store, pages: PageIds) -> None:
        if len(store.keys) != len(offload.keys):
            place = {key: at for at, key in enumerate(offload.keys)}
            pages = pages[[place[str(key)] for key in store.keys]]
        try:
            offload.ticket = self._engine.submit(
                D2H, store.pages, pages, after=self._fences.record()
            )
        except Exception as refused:  # whatever it is: it ends as failed, in its turn
            log.error("an offload of %d pages was refused: %r", len(pages), refused)
            self._index.finish_store(store.keys, False)
            self.failed += 1
            offload.success = False
            return
        offload.stored = store.keys

    def poll(self) -> None:
        """Take in the copies that have ended, up to the first that has not."""
        while self._running and self._has_ended(self._running[0]):
            offload = self._running.popleft()
            self._take_in(offload)
            self._ended.append(offload)

    def _has_ended(self, offload: _Offload) -> bool:
        return offload.ticket is None or offload.ticket.done()

    def _take_in(self, offload: _Offload) -> None:
        if offload.ticket is not None:
            error = offload.ticket.error
            self._index.finish_store(offload.stored, error is None)
            if error is None:
                self.stored_pages += len(offload.stored)
            else:
                self.failed += 1
                log.error("an offload of %d pages failed: %s", len(offload.stored), error)
        if offload.success is None:  # also what earlier offloads were to store for this one
            offload.success = bool((self._index.lookup(offload.keys) == HIT).all())

    def completed(self) -> int:
        """Offloads that have ended and were not popped; an earlier one that hasn't ended hides
        them.
        """
        self.poll()
        return len(self._ended)

    def pop(self) -> bool:
        """Whether the oldest one ended well: all its pages can be loaded.

        Raises:
            IndexError: none has ended.
        """
        if not self._ended:
            raise IndexError("no offload has ended")
        return bool(self._ended.popleft().success)

    def wait(self) -> None:
        """Wait until every copy has ended, and take all in; results stay for ``pop``."""
        for offload in self._running:
            if offload.ticket is not None:
                offload.ticket.wait_end()
        self.poll()

    def quiesce(self) -> None:
        """``wait``, then forget the results. What has landed stays."""
        self.wait()
        self._ended.clear()
