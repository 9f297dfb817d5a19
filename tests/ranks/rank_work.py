"""Random work that every rank does alike, while its copies take a time of their own.

The calls come from a generator that all ranks share. A rank's own generator holds and releases its
copies, makes it slow and lets some of its copies fail. What the caches answer is noted.
"""

from __future__ import annotations

import contextlib
import random
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

import hicache_nsa as hc
from hicache_nsa import testing
from hicache_nsa.ranks import Ready, drain_together, poll_together

PAGE = 4
DEVICE_PAGES = 24
NAMESPACES = (None, None, "lora")


@dataclass(frozen=True)
class Plan:
    """seed: of the calls. fail: ranks whose copies fail now and then, at how many steps
    (fail_share). unbounded: a rank that takes in whatever has ended, as it must not. sleep: most
    seconds that a rank's step is late. options: of the cache.
    """

    seed: int
    steps: int
    fail: tuple[int, ...] = ()
    fail_share: float = 0.05
    unbounded: int | None = None
    options: dict[str, object] = field(default_factory=dict)
    sleep: float = 0.0


@dataclass
class Notes:
    """By step: digests, what poll took in, collectives, own ``ready()``. At the end: leftovers and
    counters.
    """

    host_pages: int = 0
    digests: list[int] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)
    collectives: list[int] = field(default_factory=list)
    idle_collectives: int = 0
    drain_collectives: list[int] = field(default_factory=list)
    ready: list[list[int]] = field(default_factory=list)
    own_failures: int = 0
    failed_loads: int = 0
    failed_saves: int = 0
    loaded_tokens: int = 0
    left: list[int] = field(default_factory=list)
    stats: dict[str, object] = field(default_factory=dict)


@dataclass(eq=False)
class Request:
    tokens: np.ndarray
    namespace: str | None
    pages: list[int]
    own: set[int]
    handle: hc.LockHandle
    load: hc.LoadBack | None


class RankWork:
    """One rank's part. least: the collective; calls of it are counted."""

    def __init__(
        self, plan: Plan, rank: int, host_pages: int, least: Callable[[Sequence[int]], list[int]]
    ) -> None:
        self.plan = plan
        self.shared = random.Random(plan.seed)
        self.own = random.Random(1000 * plan.seed + rank)
        self.fails = rank in plan.fail
        self.unbounded = rank == plan.unbounded
        self.together = plan.unbounded is None
        self._least = least
        self.calls = 0
        self.notes = Notes(host_pages=least([host_pages])[0])
        fmt = hc.formats.dsa(2, page_size=PAGE, kv_lora_rank=128, rope_head_dim=4)
        self.cache = hc.HiCache(
            fmt,
            device_pages=DEVICE_PAGES,
            host_pages=self.notes.host_pages,
            acks="poll",
            workers=1,
            **plan.options,
        )
        self.holds = {"h2d": contextlib.ExitStack(), "d2h": contextlib.ExitStack()}
        self.held: set[str] = set()
        self.requests: list[Request] = []

    def least(self, numbers: Sequence[int]) -> list[int]:
        self.calls += 1
        return self._least(numbers)

    def run(self) -> Notes:
        for _ in range(self.plan.steps):
            self.disturb()
            self.act()
            self.poll()
            self.cache.check()
            self.notes.digests.append(self.cache.digest())
        self.end()
        return self.notes

    # -- what differs from rank to rank ---------------------------------------------------------

    def disturb(self) -> None:
        direction = self.own.choice(["h2d", "d2h"])
        if self.own.random() < (0.6 if direction in self.held else 0.15):
            if direction in self.held:
                self.held.discard(direction)
                self.holds[direction].close()
            else:
                self.held.add(direction)
                self.holds[direction].enter_context(testing.hold(self.cache, direction))
        if self.fails and self.own.random() < self.plan.fail_share:
            testing.fail_next(self.cache, self.own.choice(["h2d", "d2h"]), self.own.randrange(3))
            self.notes.own_failures += 1
        if self.plan.sleep and self.own.random() < 0.2:
            time.sleep(self.own.random() * self.plan.sleep)

    def open_holds(self) -> None:
        self.held.clear()
        for stack in self.holds.values():
            stack.close()

    # -- what all ranks do ----------------------------------------------------------------------

    def poll(self) -> None:
        self.notes.ready.append(list(self.cache.ready()))
        idle = self.cache.in_flight == 0
        before = self.calls
        if self.together:
            taken = poll_together(self.cache, self.least)
        else:  # the same number of collectives on all ranks, whatever becomes of their trees
            ended, sound = self.least(self.cache.ready())
            taken = self.cache.poll() if self.unbounded else self.cache.poll(ended, sound=sound)
        self.notes.taken.append(taken)
        self.notes.collectives.append(self.calls - before)
        self.notes.idle_collectives += idle * (self.calls - before)

    def drain(self) -> None:
        self.open_holds()
        before = self.calls
        if self.together:
            drain_together(self.cache, self.least)
            assert self.cache.in_flight == 0
            assert self.cache.ready() == Ready(0, 0)
        self.notes.drain_collectives.append(self.calls - before)

    def act(self) -> None:
        weights = {
            self.start: 12, self.extend: 6, self.finish: 12, self.evict_device: 5,
            self.evict_host: 2, self.look: 3, self.drain: 1, self.flush: 1,
        }  # fmt: skip
        self.shared.choices(list(weights), list(weights.values()))[0]()

    def answer(self, *values: object) -> None:
        self.notes.answers.append(zlib.crc32(repr(values).encode()))

    def some_tokens(self) -> tuple[np.ndarray, str | None]:
        length = self.shared.choice([3, 4, 8, 12, 16, 20, 23])
        tokens = [self.shared.randrange(3) * (i % 4 == 0) for i in range(length)]
        return np.array(tokens, dtype=np.int64), self.shared.choice(NAMESPACES)

    def start(self) -> None:
        if len(self.requests) >= 4:
            return
        tokens, namespace = self.some_tokens()
        match = self.cache.match_prefix(tokens, extra_key=namespace)
        handle = self.cache.lock(match)
        load = self.cache.load_back(match) if match.host_tokens else None
        pages = match.device_pages.tolist() + ([] if load is None else load.pages.tolist())
        self.answer("start", match.device_tokens, match.host_tokens, match.load_tokens, pages)
        request = Request(tokens, namespace, pages, set(), handle, load)
        self.requests.append(request)
        self.compute(request)

    def compute(self, request: Request) -> None:
        """Pages for the rest of the tokens; where saves keep them, after a drain."""
        missing = max(-(-len(request.tokens) // PAGE) - len(request.pages), 0)
        for last_try in (False, True):
            try:
                new = self.cache.allocate(missing).tolist()
                break
            except hc.OutOfPages:
                self.answer("out of pages", missing)
                if last_try:
                    self.close(request)
                    return
                self.drain()
        self.answer("pages", new)
        request.pages += new
        request.own |= set(new)

    def extend(self) -> None:
        if not self.requests:
            return
        request = self.shared.choice(self.requests)
        self.insert(request, lock=True)
        more = np.array([self.shared.randrange(3) for _ in range(self.shared.randrange(1, 9))])
        if len(request.tokens) % PAGE == 0:
            request.tokens = np.concatenate([request.tokens, more])
            self.compute(request)

    def insert(self, request: Request, lock: bool) -> None:
        """Output behind a load that failed, as far as the ranks know by now, isn't inserted."""
        whole = len(request.tokens) // PAGE
        failed = request.load is not None and request.load.acked and bool(request.load.error)
        self.answer("failed", failed)
        if failed or len(request.pages) < whole:
            return
        result = self.cache.insert(
            request.tokens,
            request.pages,
            extra_key=request.namespace,
            lock=request.handle if lock else None,
            priority=self.shared.randrange(3),
        )
        self.answer(result.pages.tolist(), result.duplicate_tokens, result.inserted_tokens)
        request.own -= set(request.pages[:whole])
        request.pages[:whole] = result.pages.tolist()
        request.handle = result.handle or request.handle

    def finish(self) -> None:
        if self.requests:
            request = self.shared.choice(self.requests)
            if self.shared.random() < 0.7:
                self.insert(request, lock=False)
            self.close(request)

    def close(self, request: Request) -> None:
        self.requests.remove(request)
        if request.load is not None:
            request.load.release()
        self.cache.unlock(request.handle)
        self.cache.free(sorted(request.own))

    def evict_device(self) -> None:
        self.answer("device", self.cache.evict_device(self.shared.randrange(20)))

    def evict_host(self) -> None:
        self.answer("host", self.cache.evict_host(self.shared.randrange(20)))

    def look(self) -> None:
        tokens, namespace = self.some_tokens()
        match = self.cache.match_prefix(tokens, extra_key=namespace, count=False)
        self.answer("look", match.device_pages.tolist(), match.host_pages.tolist())

    def flush(self) -> None:
        self.drain()
        kind = self.shared.choice(["reset", "reset", "reset", "clear", "invalidate"])
        self.answer(kind, getattr(self.cache, kind)())
        for request in list(self.requests):
            self.close(request)

    def end(self) -> None:
        """All requests end and all copies are in: nothing may be left."""
        for request in list(self.requests):
            self.close(request)
        self.drain()
        stats = self.cache.stats()
        notes = self.notes
        notes.failed_loads, notes.failed_saves = stats.failed_loads, stats.failed_saves
        notes.loaded_tokens = stats.load_back_tokens
        times = "h2d", "d2h", "exposed_waits", "exposed_wait_seconds"
        own = "_runs", "_per_run", *times  # each rank copies in its own time
        notes.stats = {k: v for k, v in asdict(stats).items() if not k.endswith(own)}
        for tier in ("device", "host"):
            ages = notes.stats[tier].pop("eviction_age")
            notes.stats[tier]["ages"] = ages.count  # how old pages were is its own, too
        tiers = stats.device, stats.host
        notes.left = [tier.locked_pages + tier.owned_pages for tier in tiers]
        notes.left.append(self.cache.in_flight)
        notes.digests.append(self.cache.digest())
        self.cache.check()
        self.cache.close()
