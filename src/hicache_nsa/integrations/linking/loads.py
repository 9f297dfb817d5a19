"""Loads: queued request by request, started as one copy a batch, awaited layer by layer."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from hicache_nsa.integrations.linking.leases import Leases
from hicache_nsa.integrations.linking.slots import host_slots, page_ids_of
from hicache_nsa.page_index import PageIndex
from hicache_nsa.tokens import PageIds, concat_pages
from hicache_nsa.transfer import H2D, Ticket, TransferEngine

NO_LOAD = -1  # the index of a batch without loads, as SGLang has it
_KEPT_RESULTS = 64

log = logging.getLogger("hicache_nsa.linking")


@dataclass
class _Queued:
    """A request's load. host_pages is None if one of ``keys`` was gone; ``error`` says which."""

    keys: list[str]
    slots: Any
    host_pages: PageIds | None
    error: str | None


@dataclass
class _Batch:
    """A started copy. ``pinned`` are the keys it reads; ``ticket`` is None if there is no copy."""

    ticket: Ticket | None
    pinned: list[str]
    error: str | None

    def ended(self) -> bool:
        return self.ticket is None or self.ticket.done()

    def failure(self) -> str | None:
        """Why not every layer landed; None if they did. For ended batches."""
        return self.error if self.ticket is None else self.ticket.error


class Loads:
    """Loads from host pages of ``index``, which stay until the copies have ended."""

    def __init__(
        self, index: PageIndex, leases: Leases, engine: TransferEngine, page_size: int
    ) -> None:
        self._index = index
        self._leases = leases
        self._engine = engine
        self._page_size = page_size
        self._queued: dict[str, _Queued] = {}
        self._batches: dict[int, _Batch] = {}
        self._next = 0
        self.loaded_pages = 0
        self.failed_batches = 0

    def queue(self, rid: str, keys: list[str], slots: Any) -> None:
        """Queue a load of ``keys`` into token ``slots`` [len(keys) * page_size].

        Ranks must agree, so a page that is gone on this one is no reason to refuse: then the batch
        fails, on every rank.

        Raises:
            ValueError: ``rid`` has a queued load, or the numbers of keys and slots differ.
        """
        if rid in self._queued:
            raise ValueError(f"request {rid} has a queued load already")
        if len(slots) != len(keys) * self._page_size:
            raise ValueError(
                f"request {rid}: {len(slots)} slots for {len(keys)} pages of {self._page_size}"
            )
        try:
            pages, error = self._leases.take(rid, keys), None
        except KeyError as gone:
            pages, error = None, f"host page {gone} of request {rid} is gone, its lease had ended"
        self._queued[rid] = _Queued(keys, slots, pages, error)

    def cancel(self, rid: str) -> bool:
        """Drop the load of ``rid`` if it has not been started; whether there was one."""
        load = self._queued.pop(rid, None)
        if load is None:
            return False
        if load.host_pages is not None:
            self._index.unpin(load.keys)
        return True

    def fail_queued(self, why: str) -> None:
        """Let no queued load run: its batch will fail."""
        for load in self._queued.values():
            if load.host_pages is not None:
                self._index.unpin(load.keys)
            load.host_pages, load.error = None, load.error or why

    def start(self) -> int:
        """Submit what is queued as one copy, behind the current stream; the batch's index.

        Never raises for a copy that can't be submitted, bad slots among them: the batch fails.
        """
        self.collect()
        if not self._queued:
            return NO_LOAD
        queued, self._queued = list(self._queued.values()), {}
        pinned = [key for load in queued if load.host_pages is not None for key in load.keys]
        errors = [load.error for load in queued if load.error is not None]
        ticket, error = None, "; ".join(errors)
        if not errors:
            try:
                ticket = self._submit(queued)
            except Exception as refused:  # whatever it is: other ranks wait for this batch
                error = f"the copy was refused: {refused!r}"
        if ticket is None:
            log.error("a load of %d requests failed: %s", len(queued), error)
            self.failed_batches += 1
            self._index.unpin(pinned)
            pinned = []
        batch = self._next
        self._next += 1
        self._batches[batch] = _Batch(ticket, pinned, error or None)
        self._forget_old(batch - _KEPT_RESULTS)
        return batch

    def _forget_old(self, batch: int) -> None:
        """Results of which nobody has asked for ``_KEPT_RESULTS`` batches."""
        for old in [b for b, found in self._batches.items() if b <= batch and found.ended()]:
            self.finish(old)

    def _submit(self, queued: list[_Queued]) -> Ticket:
        slots = [host_slots(load.slots) for load in queued]
        device = concat_pages(page_ids_of(part, self._page_size, self._pages) for part in slots)
        host = concat_pages(load.host_pages for load in queued if load.host_pages is not None)
        fence = self._engine.record()
        after = [] if fence is None else [fence]
        return self._engine.submit(H2D, host, device, after=after)

    @property
    def _pages(self) -> int:
        return self._engine.device_pool.num_pages

    def wait_layer(self, batch: int, layer: int) -> None:
        """Make the current stream wait until ``layer`` of ``batch`` has landed, or never will."""
        found = self._batches.get(batch)
        if found is not None and found.ticket is not None:
            found.ticket.wait_layer(layer)

    def finish(self, batch: int) -> bool:
        """Wait until ``batch`` writes no more; whether every layer landed. Forgets the batch."""
        if batch < 0:
            return True
        found = self._batches.get(batch)
        if found is None:
            return False  # dropped by a flush: its pages are nobody's any more
        if found.ticket is not None:
            found.ticket.wait_end()
        self._settle(found)
        del self._batches[batch]
        return found.failure() is None

    def collect(self) -> None:
        """Let go of the host pages of copies that have ended."""
        for batch in self._batches.values():
            if batch.pinned and batch.ended():
                self._settle(batch)

    def _settle(self, batch: _Batch) -> None:
        """Once a batch, when its copy has ended."""
        if not batch.pinned:
            return
        self._index.unpin(batch.pinned)
        failure = batch.failure()
        if failure is None:
            self.loaded_pages += len(batch.pinned)
        else:
            self.failed_batches += 1
            log.error("a load of %d pages failed: %s", len(batch.pinned), failure)
        batch.pinned = []

    def wait(self) -> None:
        """Wait until no copy writes any more; results stay for ``finish``."""
        for batch in self._batches.values():
            if batch.ticket is not None:
                batch.ticket.wait_end()
        self.collect()

    def quiesce(self) -> None:
        """Drop what is queued, wait for what is in flight, forget all results."""
        for rid in list(self._queued):
            self.cancel(rid)
        for batch in list(self._batches):
            self.finish(batch)
