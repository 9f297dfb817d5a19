"""What a call did to pages: which came free, which were handed out, which copies were submitted.

Read from the outside of the cache's parts (both pools and the transfer engine), in their order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from page_tags import PageTags

import hicache_nsa as hc

DIRECTIONS = ("h2d", "d2h")
SECONDS = 30.0


@dataclass(eq=False)
class Submitted:
    """One copy. fails: it was told to. tags: what its pages must hold once it is done."""

    host_pages: list[int]
    device_pages: list[int]
    ticket: Any
    direction: str
    fails: bool
    tags: list[int] = field(default_factory=list)
    ended: bool = False

    def wait(self) -> None:
        if not self.ended:
            assert self.ticket.wait_end(SECONDS), f"a {self.direction} copy did not end"
            assert (self.ticket.error is not None) == self.fails, (self.fails, self.ticket.error)
            self.ended = True


class Trace:
    """Records from its making on. ``take_*`` hands out what was recorded, each event once."""

    def __init__(self, cache: hc.HiCache, tags: PageTags) -> None:
        self._tags = tags
        self._device_freed: list[int] = []
        self._device_expected: list[int] = []
        self._device_allocated: list[int] = []
        self._host: list[tuple[str, list[int]]] = []
        self._submitted: list[Submitted] = []
        self._late_device: set[int] = set()
        self._late_host: set[int] = set()
        self.failures: dict[str, int] = dict.fromkeys(DIRECTIONS, 0)
        self._watch_device(cache.device_pool)
        self._watch_host(cache.host_pool)
        self._watch_engine(cache.engine)

    def _watch_device(self, pool: hc.DevicePool) -> None:
        allocate, free = pool.allocate, pool.free

        def watched_allocate(num_pages: int) -> Any:
            pages = allocate(num_pages)
            self._device_allocated += pages.tolist()
            self._tags.forget_device(pages)
            return pages

        def watched_free(pages: Any) -> None:
            free(pages)
            self._device_freed += _but(pages, self._late_device)

        pool.allocate, pool.free = watched_allocate, watched_free  # type: ignore[method-assign]

    def _watch_host(self, pool: hc.HostPool) -> None:
        allocate, free = pool.allocate, pool.free

        def watched_allocate(num_pages: int) -> Any:
            pages = allocate(num_pages)
            if num_pages:
                self._host.append(("allocated", pages.tolist()))
                self._tags.forget_host(pages)
            return pages

        def watched_free(pages: Any) -> None:
            free(pages)
            if rest := _but(pages, self._late_host):
                self._host.append(("freed", rest))

        pool.allocate, pool.free = watched_allocate, watched_free  # type: ignore[method-assign]

    def _watch_engine(self, engine: hc.TransferEngine) -> None:
        submit = engine.submit

        def watched(
            direction: str, host_pages: Any, device_pages: Any, *args: Any, **options: Any
        ) -> Any:
            ticket = submit(direction, host_pages, device_pages, *args, **options)
            fails = self.failures[direction] > 0
            self.failures[direction] -= fails
            pages = host_pages.tolist(), device_pages.tolist()
            self._submitted.append(Submitted(*pages, ticket, direction, fails))
            return ticket

        engine.submit = watched  # type: ignore[method-assign]

    # -- what the model asks for ----------------------------------------------------------------

    def take_allocated(self, tier: str) -> list[int]:
        """Pages handed out: all of the device's, the next ones of the host's."""
        if tier == "device":
            pages, self._device_allocated = self._device_allocated, []
            return pages
        return self._next_host("allocated")

    def take_freed(self, tier: str) -> list[int]:
        """Pages that came free: all of the device's, the next ones of the host's."""
        if tier == "device":
            pages, self._device_freed = self._device_freed, []
            return pages
        return self._next_host("freed")

    def peek_freed(self) -> list[int]:
        """Device pages that came free and are not explained yet."""
        return self._device_freed

    def drop_freed(self, pages: list[int]) -> None:
        """They are explained."""
        for page in pages:
            self._device_freed.remove(page)

    def peek_host_freed(self) -> list[int]:
        """What ``take_freed("host")`` would give."""
        return self._host[0][1] if self._host and self._host[0][0] == "freed" else []

    def take_all_host_freed(self) -> list[int]:
        pages: list[int] = []
        while part := self._next_host("freed"):
            pages += part
        return pages

    def _next_host(self, kind: str) -> list[int]:
        if self._host and self._host[0][0] == kind:
            return self._host.pop(0)[1]
        return []

    def take_submitted(self, direction: str) -> Submitted | None:
        if self._submitted and self._submitted[0].direction == direction:
            return self._submitted.pop(0)
        return None

    def wait(self, direction: str) -> int:
        """Until the copies end that nobody has taken yet; returns how many had not."""
        running = [c for c in self._submitted if c.direction == direction and not c.ended]
        for copy in running:
            copy.wait()
        return len(running)

    def expect_device_freed(self, pages: list[int]) -> None:
        """The call had to free these; compared by ``require_explained``."""
        self._device_expected += pages

    def expect_freed_later(self, device: list[int], host: list[int]) -> None:
        """These have come free, or will in some call before anybody gets them."""
        self._late_device.update(device)
        self._late_host.update(host)
        self._device_freed = _but(self._device_freed, self._late_device)
        waiting, self._host = self._host, []
        for kind, pages in waiting:
            rest = _but(pages, self._late_host) if kind == "freed" else pages
            if rest:
                self._host.append((kind, rest))

    def require_explained(self) -> None:
        """Nothing is left that no ``take`` or ``expect`` accounts for."""
        if not (
            self._device_freed
            or self._device_expected
            or self._device_allocated
            or self._host
            or self._submitted
        ):
            return
        freed, expected = sorted(self._device_freed), sorted(self._device_expected)
        assert freed == expected, f"device pages freed: {freed}, the model has {expected}"
        self._device_freed, self._device_expected = [], []
        rest = (self._device_allocated, self._host, self._submitted)
        assert not any(rest), f"no call explains: allocated, host pages, copies: {rest}"


def _but(pages: Any, late: set[int]) -> list[int]:
    """``pages`` without those that were expected; each of them is expected once."""
    rest = [page for page in map(int, pages) if page not in late]
    late.difference_update(map(int, pages))
    return rest
