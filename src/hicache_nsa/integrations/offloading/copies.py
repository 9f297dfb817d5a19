"""Copies by an engine's job numbers: submitted, waited for, reported once; a failure is never lost.

An engine that believes a failed load computes on foreign bytes. So a copy that failed is made again
by ``copy_again``, and if that fails too, every later call raises: the job is never reported. A load
of pages that are not what was saved (``verify``) is not made again: it would bring the same bytes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple

from hicache_nsa.errors import TransferError
from hicache_nsa.integrations.offloading.copy_again import copy_again
from hicache_nsa.tokens import PageIds
from hicache_nsa.transfer import H2D, Ticket, TransferEngine

CopyAgain = Callable[..., None]
_log = logging.getLogger(__name__)


class FinishedCopy(NamedTuple):
    """A job whose bytes are where they belong. seconds: of the copy itself."""

    job: int
    direction: str
    nbytes: int
    seconds: float


class _Copy(NamedTuple):
    job: int
    direction: str
    host_pages: PageIds
    device_pages: PageIds
    ticket: Ticket


class Copies:
    """The jobs of one worker on one ``TransferEngine``. For one thread, the worker's."""

    def __init__(self, engine: TransferEngine, again: CopyAgain = copy_again) -> None:
        self._engine = engine
        self._again = again
        self._in_flight: dict[int, _Copy] = {}
        self._finished: list[FinishedCopy] = []
        self._broken: str | None = None
        self.repeated = 0  # copies that failed and were made again

    def submit(self, job: int, direction: str, host_pages: PageIds, device_pages: PageIds) -> None:
        """Start a copy behind what the caller's stream has queued; returns at once.

        Raises:
            ValueError: the job is in flight, or the pages are bad (see ``TransferEngine.save``).
            TransferError: an earlier copy failed for good.
        """
        self._require_whole()
        if job in self._in_flight:
            raise ValueError(f"job {job} is in flight already")
        # The model's next forward runs beside the copy, whatever the stream has queued by now.
        if direction == H2D:
            ticket = self._engine.load(
                host_pages, device_pages, layerwise=False, beside_compute=True
            )
        else:
            ticket = self._engine.save(device_pages, host_pages, beside_compute=True)
        self._in_flight[job] = _Copy(job, direction, host_pages, device_pages, ticket)

    def finished(self) -> list[FinishedCopy]:
        """The jobs that ended well since the last call, each one once.

        Raises:
            TransferError: one failed for good.
        """
        self._require_whole()
        for copy in list(self._in_flight.values()):
            if copy.ticket.done():
                self._settle(copy)
        finished, self._finished = self._finished, []
        return finished

    def wait(self, jobs: Iterable[int]) -> None:
        """Wait until none of ``jobs`` is in flight; ``finished`` reports them later.

        Jobs that are not in flight are passed over. Raises as ``finished`` does.
        """
        self._require_whole()
        for job in sorted(jobs):
            copy = self._in_flight.get(job)
            if copy is not None:
                copy.ticket.wait_end()
                self._settle(copy)

    def drop(self) -> None:
        """Forget every job; for the end, when the engine has finished what was in flight."""
        self._in_flight.clear()
        self._finished.clear()

    def _settle(self, copy: _Copy) -> None:
        """Take in a copy that has ended; make it again if it failed."""
        error = copy.ticket.error
        if error is not None:
            self._repeat(copy, error)
        del self._in_flight[copy.job]
        self._finished.append(
            FinishedCopy(copy.job, copy.direction, copy.ticket.nbytes, copy.ticket.seconds)
        )

    def _repeat(self, copy: _Copy, error: str) -> None:
        what = f"job {copy.job} ({copy.direction}, {len(copy.host_pages)} pages)"
        if len(copy.ticket.corrupt):
            self._broken = f"{what} failed: {error}. Nothing is reported now: restart the worker"
            raise TransferError(self._broken)
        _log.warning("%s failed and is made again page by page: %s", what, error)
        try:
            self._again(
                self._engine.device_pool,
                self._engine.host_pool,
                copy.direction,
                copy.host_pages,
                copy.device_pages,
            )
        except Exception as second:
            self._broken = (
                f"{what} failed: {error}; made again page by page it failed too: {second}. Its "
                f"pages hold no valid data, so nothing is reported any more: restart the worker"
            )
            raise TransferError(self._broken) from second
        self.repeated += 1

    def _require_whole(self) -> None:
        if self._broken is not None:
            raise TransferError(self._broken)
