"""What a process that attaches may find, by what the one before it had reported when it was killed.

Pure: no cache here. A *mark* names one cached page by its namespace, its end in the prefix and a
checksum of all tokens up to there.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Mark = tuple[str | None, int, int]
IDLE = "idle"
EMPTYING = ("clear", "invalidate")
WAITING = ("drain", "reset", "clear", "allocate", "close")
"""Calls that take in copies which they, or others in between, have started themselves."""


@dataclass
class Known:
    """What the model knows of the file.

    acknowledged: pages whose save had been taken in, and that were not evicted, at the last report.
    call: the call that had begun and not ended; IDLE between calls. evicting: tokens given to it.
    flying: pages of the saves in flight when it began. cached: pages in the tree, or about to be.
    room: whether no call could be short of host pages.
    """

    acknowledged: set[Mark] = field(default_factory=set)
    call: str = IDLE
    evicting: int = 0
    flying: frozenset[Mark] = frozenset()
    cached: frozenset[Mark] = frozenset()
    room: bool = True

    def begin(
        self,
        call: str,
        evicting: int,
        flying: frozenset[Mark],
        cached: frozenset[Mark],
        room: bool,
    ) -> None:
        """A report that a call begins."""
        self.call, self.evicting, self.room = call, evicting, room
        self.flying, self.cached = flying, cached

    def end(self, added: set[Mark], gone: set[Mark], flying: frozenset[Mark], room: bool) -> None:
        """A report that it has ended, and what it changed."""
        self.acknowledged = (self.acknowledged | added) - gone
        self.call, self.evicting, self.flying, self.room = IDLE, 0, flying, room

    def attached(self, found: set[Mark]) -> None:
        """A new process reports what it has found, and that was right."""
        self.acknowledged = set(found)
        self.call, self.evicting, self.room = IDLE, 0, False
        self.flying = self.cached = frozenset()

    def wrong(self, found: set[Mark], page_size: int) -> str | None:
        """Why ``found`` can't be what the file held at any instant since the last report."""
        gained = found - self.acknowledged
        lost = self.acknowledged - found
        for name, end, _ in found:
            if end > page_size and not any(m[0] == name and m[1] == end - page_size for m in found):
                return f"{name} has a page that ends at {end} and none before it"
        if self.call in EMPTYING and not found:
            return None  # one store: everything or nothing
        allowed = self.flying | self.cached if self.call in WAITING else self.flying
        if gained - allowed:
            return f"during {self.call}: {len(gained - allowed)} pages match, never acknowledged"
        most = 0 if self.room else len(lost)
        if self.call == "evict_host":
            most = -(-self.evicting // page_size) if self.room else most
        if len(lost) > most:
            return f"during {self.call}: {len(lost)} acknowledged pages are lost, {most} may be"
        return None
