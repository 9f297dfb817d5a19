"""What handles call when they end. Under the cache's lock; nothing happens once they are stale."""

from __future__ import annotations

from hicache_nsa.cache.guard import Guard
from hicache_nsa.cache.load_back import LoadBack
from hicache_nsa.cache.loading import release_load
from hicache_nsa.cache.pinning import end_pin, expire_pins
from hicache_nsa.cache.pins import Pin
from hicache_nsa.cache.state import CacheState
from hicache_nsa.streams import Stream


class Ends:
    """The ends of the loads and pins of one cache.

    polled: pins end in ``poll()``, not in any call.
    """

    def __init__(self, guard: Guard, state: CacheState, polled: bool) -> None:
        self._guard = guard
        self._state = state
        self._polled = polled
        state.engine.timeline.enlist(guard)

    def end_load(self, load: LoadBack, stream: Stream, cancel: bool) -> None:
        """``LoadBack.release`` and ``LoadBack.cancel``."""
        with self._guard.lock:
            stale = self._guard.unusable is not None or load._epoch is not self._state.epoch
            if not stale and not load._released:
                release_load(self._state, load, stream, cancel)
            load._released = True

    def expire(self) -> None:
        """The pins whose time is over end."""
        with self._guard.lock:
            if self._guard.unusable is None:
                expire_pins(self._state)

    def end_pin(self, pin: Pin) -> None:
        """``Pin.release``."""
        with self._guard.lock:
            if self._guard.unusable is None:
                end_pin(self._state, pin)
            pin._ended = True

    def pin_is_active(self, pin: Pin) -> bool:
        """``Pin.active``."""
        with self._guard.lock:
            if self._guard.unusable is not None or pin._epoch is not self._state.epoch:
                return False
            if not self._polled:
                expire_pins(self._state)
            return not pin._ended
