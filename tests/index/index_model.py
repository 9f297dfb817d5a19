"""What ``PageIndex`` must answer, computed the slow way over a dict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hicache_nsa.page_index import HIT, MISS, PENDING


@dataclass
class Entry:
    page: int
    parent: str | None
    priority: int
    state: int = PENDING
    withheld: bool = False
    pins: int = 0
    stored: int = 0
    used: int = 0
    uses: int = 0


ORDERS = {
    "lru": lambda e: e.used,
    "mru": lambda e: -e.used,
    "fifo": lambda e: e.stored,
    "filo": lambda e: -e.stored,
    "lfu": lambda e: (e.uses, e.used),
    "slru": lambda e: (e.uses > 1, e.used),
    "priority": lambda e: (e.priority, e.used),
}


@dataclass
class IndexModel:
    pages: int
    policy: str
    entries: dict[str, Entry] = field(default_factory=dict)
    now: int = 0

    def state(self, key: str) -> int:
        entry = self.entries.get(key)
        return MISS if entry is None or entry.withheld else entry.state

    def with_state(self, state: int) -> list[str]:
        return [key for key in self.entries if self.state(key) == state]

    @property
    def free(self) -> int:
        return self.pages - len(self.entries)

    def below(self, key: str) -> list[str]:
        return [k for k, e in self.entries.items() if e.parent == key and not e.withheld]

    def use(self, key: str) -> None:
        self.now += 1
        self.entries[key].used = self.now
        self.entries[key].uses += 1

    def pin(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.use(key)
            self.entries[key].pins += 1

    def unpin(self, keys: Iterable[str]) -> None:
        for key in keys:
            entry = self.entries[key]
            entry.pins -= 1
            if entry.withheld and entry.pins == 0:
                del self.entries[key]

    def touch(self, keys: Iterable[str]) -> None:
        for key in keys:
            if self.state(key) == HIT:
                self.use(key)

    def victims(self, wanted: int, kept: set[str]) -> list[str] | None:
        """The ``wanted`` keys that go next, one by one; None if not so many may go."""
        gone: list[str] = []
        while len(gone) < wanted:
            free = [
                key
                for key in self.with_state(HIT)
                if self.entries[key].pins == 0
                and key not in kept
                and key not in gone
                and not set(self.below(key)) - set(gone)
            ]
            if not free:
                return None
            gone.append(min(free, key=lambda key: ORDERS[self.policy](self.entries[key])))
        return gone

    def plan_store(
        self, keys: Sequence[str], parent: str | None
    ) -> tuple[list[str], list[str], list[str] | None]:
        """The keys to be stored, the part of the chain that is not left out, who goes for it."""
        if parent is not None and self.state(parent) == MISS:
            return [], [], []
        chain: list[str] = []
        for key in keys:
            if key in self.entries and self.entries[key].withheld:
                break
            chain.append(key)
        new = [key for key in chain if key not in self.entries]
        kept = set(keys) | {parent} if parent is not None else set(keys)
        return new, chain, self.victims(max(0, len(new) - self.free), kept)

    def begin_store(
        self,
        chain: Sequence[str],
        parent: str | None,
        priority: int,
        evicted: Iterable[str],
        pages: dict[str, int],
    ) -> None:
        for key in evicted:
            del self.entries[key]
        for key in chain:
            if key not in self.entries:
                self.entries[key] = Entry(pages[key], parent, priority)
            parent = key

    def finish_store(self, keys: Sequence[str], success: bool) -> set[str]:
        dropped = {key for key in keys if self.entries[key].withheld}
        for key in keys:
            entry = self.entries[key]
            if entry.withheld or not success:
                entry.state = MISS  # nothing is being written any more
            else:
                self.use(key)
                entry.state, entry.stored = HIT, self.now
        if not success:
            lost = [key for key in keys if not self.entries[key].withheld]
            while lost:
                key = lost.pop()
                lost += self.below(key)
                self.entries[key].withheld = True
                dropped.add(key)
        self._forget_idle()
        return dropped

    def reset(self) -> int:
        reachable = [key for key in self.entries if self.state(key) != MISS]
        for key in reachable:
            self.entries[key].withheld = True
        self._forget_idle()
        return len(reachable)

    def _forget_idle(self) -> None:
        for key, entry in list(self.entries.items()):
            if entry.withheld and entry.pins == 0 and entry.state != PENDING:
                del self.entries[key]
