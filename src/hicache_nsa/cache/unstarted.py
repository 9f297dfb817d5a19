"""``Unstarted``: what stands for a copy that could not be submitted."""

from __future__ import annotations

from hicache_nsa.transfer import Ticket


class Unstarted(Ticket):
    """The ticket of a copy that has ended before it started: it failed."""

    def __init__(self, reason: BaseException) -> None:
        self._error = f"this copy could not be started: {reason}"

    def done(self) -> bool:
        """True."""
        return True

    @property
    def error(self) -> str:
        """Why it could not be started."""
        return self._error
