"""What became of each prefix, in a dictionary, and how long ago pages were used when they went."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, field

from contract_values import Prefix

FEWEST_KNOWN = 1024
BOUNDS = (1, 3, 10, 30, 60, 300, 900, 3600, 10800, 43200, 86400, 259200)


@dataclass(eq=False)
class Fate:
    """where: cached, or what took it. save_failed: the last save of it, since it is cached. again:
    noted since the last one that was forgotten passed it by.
    """

    where: str = "flushed"
    save_failed: bool = False
    again: bool = False


class Fates:
    """Of as many prefixes as ``most``; then the first one is forgotten that is not cached and was
    not noted again.
    """

    def __init__(self, device_pages: int, host_pages: int) -> None:
        self.most = max(2 * (device_pages + host_pages), FEWEST_KNOWN)
        self._known: dict[Prefix, Fate] = {}
        self._order: deque[Prefix] = deque()

    def of(self, prefix: Prefix) -> str:
        """cached, evicted, flushed, failed or unknown."""
        fate = self._known.get(prefix)
        return "unknown" if fate is None else fate.where

    def entered(self, prefix: Prefix) -> None:
        fate = self._note(prefix)
        fate.where, fate.save_failed = "cached", False

    def left(self, prefix: Prefix, why: str) -> None:
        fate = self._note(prefix)
        fate.where, fate.save_failed = "failed" if fate.save_failed else why, False

    def all_left(self) -> None:
        """A flush: nobody looks at them one by one."""
        for fate in self._known.values():
            if fate.where == "cached":
                fate.where = "failed" if fate.save_failed else "flushed"
            fate.save_failed = False

    def save_ended(self, prefix: Prefix, failed: bool) -> None:
        fate = self._known.get(prefix)
        if fate is not None and fate.where == "cached":
            fate.save_failed = failed

    def never_came(self, prefix: Prefix) -> None:
        fate = self._note(prefix)
        if fate.where != "cached":
            fate.where = "failed"

    def _note(self, prefix: Prefix) -> Fate:
        fate = self._known.get(prefix)
        if fate is not None:
            fate.again = True
            return fate
        while len(self._known) >= self.most:
            first = self._order.popleft()
            fate = self._known[first]
            if fate.where == "cached" or fate.again:
                fate.again = False
                self._order.append(first)
            else:
                del self._known[first]
        self._order.append(prefix)
        fate = self._known[prefix] = Fate()
        return fate


@dataclass
class Ages:
    """Of evicted pages of one tier: how many in each range of seconds, and their sum."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    total: float = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds
