"""``CachePolling``: the part of ``HiCache`` where copies in flight are awaited and taken in."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from hicache_nsa._core import Fence
from hicache_nsa.cache import agreement, audit
from hicache_nsa.cache.acks import take_in
from hicache_nsa.cache.agreement import Ready, require_agreed
from hicache_nsa.cache.demoting import keep_low_water
from hicache_nsa.cache.ends import Ends
from hicache_nsa.cache.guard import atomic, call_recorded, recorded
from hicache_nsa.cache.pinning import expire_pins
from hicache_nsa.cache.retired import reclaim, reclaim_all
from hicache_nsa.cache.state import CacheState
from hicache_nsa.cache.view import CacheView
from hicache_nsa.errors import HiCacheError
from hicache_nsa.formats.checks import count_of
from hicache_nsa.stats import CacheStats
from hicache_nsa.transfer import Ticket, seconds_of

Result = TypeVar("Result")


class CachePolling(CacheView):
    """See the module. polled: ``acks="poll"``."""

    _polled: bool
    _ends: Ends

    @atomic
    def poll(self, limit: int | None = None, *, sound: int | None = None) -> int:
        """Take in finished copies (at most ``limit``): publish, unlock, report. Returns how many.

        With ``acks="poll"`` in the order of submission over both directions. Also frees some of the
        pages that an ``invalidate`` left behind. Under ``write_back`` pages are then demoted until
        ``low_water`` of the device will be free; not in a call that takes in a failed save.
        sound: for ranks, which agree on both numbers (``ready()``): so many copies ended well on
            all of them. If that is less than ``limit``, the copy behind those failed on some rank:
            it is taken in as failed, as the last one of this call.

        Raises:
            ValueError: ``sound`` without ``limit``, or more than ``ready()`` says.
            HiCacheError: ``sound`` with ``acks="auto"``.
        """
        bound = None if limit is None else count_of(limit, "limit")
        if sound is not None:
            self._require_polled("poll(sound=...)")
            require_agreed(self._state, bound, count_of(sound, "sound"))
        expire_pins(self._state)
        failed = self._state.counters.failed_saves
        count = take_in(self._state, limit=bound, in_order=self._polled, sound=sound)
        reclaim(self._state)
        if self._state.counters.failed_saves == failed:
            keep_low_water(self._state)
        return count

    @recorded
    def drain(self, timeout: float | None = None) -> bool:
        """Wait until no copy is in flight and all are in; False after ``timeout`` seconds.

        Each as it ended here: several ranks call ``ranks.drain_together``, also before ``reset``.
        Then nothing of what an ``invalidate`` left behind is left either.
        """
        seconds = seconds_of(timeout)
        limit = None if seconds is None else time.monotonic() + seconds
        self._ends.expire()
        while True:
            ticket = self._oldest_ticket()
            if ticket is None:
                self._reclaim_all()
                return True
            left = None if limit is None else max(limit - time.monotonic(), 0.0)
            if not ticket.wait_end(left):
                return False

    @property
    def in_flight(self) -> int:
        """Copies submitted and not taken in yet. With ``acks="poll"`` the same on all ranks."""
        return self._in_flight()

    @recorded
    def ready(self, timeout: float | None = 0.0) -> Ready:
        """What ``poll`` could take in now: (ended, sound), see ``Ready``. Takes in nothing.

        timeout: seconds to wait first until every copy in flight has ended, None without limit.

        Raises:
            HiCacheError: with ``acks="auto"``, where any call takes in copies.
        """
        seconds = seconds_of(timeout)
        limit = None if seconds is None else time.monotonic() + seconds
        for ticket in self._tickets():
            ticket.wait_end(None if limit is None else max(limit - time.monotonic(), 0.0))
        return self._ready()

    @atomic
    def observe(self) -> CacheStats:
        """``stats()`` for who only watches, from a thread of its own.

        While the host tier still grows it takes in nothing: an error of memory that is not ready
        yet is told once, and it is the engine that has to hear it.
        """
        if not self._state.host.growing:
            self._take_in()
        return audit.stats(self._state)

    # -- inside ---------------------------------------------------------------------------------

    def _when_idle(self, action: Callable[[CacheState, Fence | None], Result]) -> Result:
        """Wait, with the lock released, until no copy is in flight; act before one can start."""

        def act() -> Result:
            while True:
                with self._guard.lock:
                    ticket = self._oldest_ticket()
                    if ticket is None:
                        return action(self._state, self._state.fence(None))
                ticket.wait_end()

        return call_recorded(self._guard, action.__name__, act)

    @atomic
    def _reclaim_all(self) -> None:
        reclaim_all(self._state)

    def _take_in(self) -> None:
        """With ``acks="auto"``: what is over by now, copies and pins, and pages that are ready."""
        if self._polled:
            return
        expire_pins(self._state)
        if self._state.loads or self._state.saves or self._state.host.growing:
            take_in(self._state)

    @atomic
    def _oldest_ticket(self) -> Ticket | None:
        """Take in what has ended; the ticket of the copy to be taken in next, or None."""
        take_in(self._state, in_order=self._polled)
        first = [copies[0] for copies in (self._state.loads, self._state.saves) if copies]
        return min(first, key=lambda copy: copy.number).ticket if first else None

    @atomic
    def _in_flight(self) -> int:
        return len(self._state.loads) + len(self._state.saves)

    @atomic
    def _tickets(self) -> list[Ticket]:
        self._require_polled("ready()")
        return [copy.ticket for copy in agreement.copies_in_order(self._state)]

    @atomic
    def _ready(self) -> Ready:
        return agreement.ready(self._state)

    def _require_polled(self, call: str) -> None:
        if not self._polled:
            raise HiCacheError(
                f'{call} is for acks="poll": this cache has acks="auto" and takes in copies in any '
                f"call, at moments that differ from rank to rank"
            )
