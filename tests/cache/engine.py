"""A small engine that drives a cache at random and knows which bytes every page must hold.

Each page's bytes are made from the identity of its prefix (namespace and tokens up to and including
it), so that a page in the wrong place, from the wrong tier or half copied is seen at once. Pages
computed behind a load that is going to fail are written as poison: poison must never be matched.
"""

from __future__ import annotations

import contextlib
import random
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

import hicache_nsa as hc
from hicache_nsa import testing

PAGE = 4
LAYERS = 3


def identity(namespace: str | None, tokens: np.ndarray, page: int) -> int:
    return zlib.crc32(tokens[: (page + 1) * PAGE].tobytes(), len(namespace or ""))


def fill(cache: hc.HiCache, page: int, ident: int, poison: bool = False) -> None:
    for name, layer, view in device_views(cache, page):
        view[...] = pattern(name, layer, ident, view.size) ^ (0xFF if poison else 0)


def pattern(name: str, layer: int, ident: int, size: int) -> np.ndarray:
    seed = zlib.crc32(f"{name}/{layer}/{ident}".encode())
    mixed = (np.arange(size, dtype=np.uint64) + np.uint64(seed)) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed >> np.uint64(40)).astype(np.uint8)


def device_views(cache: hc.HiCache, page: int):
    for buffer in cache.format.buffers:
        for layer, array in zip(buffer.layers, cache.device_pool.buffers[buffer.name], strict=True):
            yield buffer.name, layer, array[page]


def device_holds(cache: hc.HiCache, page: int, ident: int) -> bool:
    return all(
        np.array_equal(view, pattern(name, layer, ident, view.size))
        for name, layer, view in device_views(cache, page)
    )


def host_holds(cache: hc.HiCache, page: int, ident: int) -> bool:
    return all(
        np.array_equal(view, pattern(buffer.name, layer, ident, view.size))
        for buffer in cache.format.buffers
        for layer in buffer.layers
        for view in [cache.host_pool.page_view(buffer.name, layer, page)]
    )


@dataclass(eq=False)
class Request:
    namespace: str | None
    tokens: np.ndarray
    pages: list[int]
    handle: hc.LockHandle | None = None
    load: hc.LoadBack | None = None
    doomed: bool = False
    inserted: int = 0
    own: set[int] = field(default_factory=set)


class Engine:
    """Random steps on one cache. ``step()`` does one and checks everything it can.

    spoils: host copies go wrong.
    """

    spoils = False

    def __init__(self, seed: int, **options) -> None:
        self.rng = random.Random(seed)
        fmt = hc.formats.dsa(
            LAYERS, page_size=PAGE, kv_lora_rank=128, rope_head_dim=4, index_layers=(0, 2)
        )
        self.cache = hc.HiCache(fmt, **options)
        self.polled = options.get("acks") == "poll"
        self.requests: list[Request] = []
        self.held = {"h2d": contextlib.ExitStack(), "d2h": contextlib.ExitStack()}
        self.is_held = {"h2d": False, "d2h": False}
        self.bad_loads: set = set()
        self.last = self.cache.stats()

    # -- steps --------------------------------------------------------------------------------

    def step(self) -> str:
        weights = {
            self.start: 10, self.extend: 8, self.finish: 7, self.evict_device: 2,
            self.evict_host: 2, self.poll: 4, self.toggle_hold: 3, self.fail_save: 1,
            self.look: 4, self.drain: 1, self.flush: 1,
            **self.more_steps(),
        }  # fmt: skip
        action = self.rng.choices(list(weights), list(weights.values()))[0]
        action()
        self.cache.check()
        self.verify_requests()
        self.verify_counters()
        return action.__name__

    def more_steps(self) -> dict[Callable[[], None], int]:
        """Steps of a kind of engine, by weight."""
        return {}

    def start(self) -> None:
        if len(self.requests) >= 6:
            return
        tokens, namespace = self.some_tokens()
        match = self.match(tokens, namespace)
        handle = self.cache.lock(match)
        # A load that landed in between turns host tokens into device tokens.
        # One that found a wrong host copy in between took it out.
        there = handle.device_tokens + handle.host_tokens
        assert there == match.tokens or (self.spoils and there < match.tokens)
        assert handle.device_tokens >= match.device_tokens
        load, doomed = None, False
        if match.host_tokens and self.rng.random() < 0.8:
            doomed = self.rng.random() < 0.25 and match.load_tokens > 0
            if doomed:
                testing.fail_next(self.cache, "h2d", self.rng.randrange(3))
            before = self.cache.engine.counters()["h2d"]["submitted"]
            load = self.bring(match)
            if doomed and self.cache.engine.counters()["h2d"]["submitted"] == before:
                self.disarm()
                doomed = False
        pages = list(match.device_pages)
        if load is not None:
            pages += list(load.pages)
            doomed = doomed or any(x.ticket.error or x in self.bad_loads for x in load._loads)
            if doomed:
                self.bad_loads.update(x for x in load._loads)
        request = Request(namespace, tokens, pages, handle, load, doomed)
        self.requests.append(request)
        self.compute(request)

    def bring(self, match: hc.PrefixMatch) -> hc.LoadBack | None:
        load = self.cache.load_back(match)
        assert load is None or load.tokens == match.host_tokens
        return load

    def compute(self, request: Request) -> None:
        """Compute the rest of the tokens, or as much as there are pages for."""
        missing = -(-len(request.tokens) // PAGE) - len(request.pages)
        if missing <= 0:
            return
        try:
            new = self.cache.allocate(missing)
        except hc.OutOfPages:
            stats = self.cache.stats()
            device = stats.device
            waits = stats.saves_in_flight and (self.polled or self.is_held["d2h"])
            assert waits or device.free_pages + device.evictable_pages < missing
            self.close_request(request)
            return
        for page in new.tolist():
            position = len(request.pages)
            request.pages.append(page)
            request.own.add(page)
            fill(
                self.cache,
                page,
                identity(request.namespace, request.tokens, position),
                request.doomed,
            )

    def extend(self) -> None:
        """Insert what is computed, keep the lock, and compute some more tokens."""
        if not self.requests:
            return
        request = self.rng.choice(self.requests)
        self.insert(request, lock=request.handle if request.handle else True)
        if self.rng.random() < 0.5 and request in self.requests:
            partial = len(request.tokens) % PAGE
            keep = request.tokens[: len(request.tokens) - partial]
            more = np.array([self.rng.randrange(3) for _ in range(self.rng.randrange(1, 9))])
            if partial and len(request.pages) > len(keep) // PAGE:
                page = request.pages.pop()
                request.own.discard(page)
                self.cache.free([page])
            request.tokens = np.concatenate([keep, more]).astype(np.int64)
            self.compute(request)

    def insert(self, request: Request, lock) -> None:
        whole = len(request.tokens) // PAGE
        if len(request.pages) < whole:
            return
        given = np.array(request.pages[: whole + self.rng.randrange(2)], dtype=np.int64)
        result = self.cache.insert(request.tokens, given, extra_key=request.namespace, lock=lock)
        assert result.duplicate_tokens + result.inserted_tokens == whole * PAGE
        request.own -= set(given[:whole].tolist())
        request.pages[:whole] = result.pages.tolist()
        if lock is not None:
            request.handle = result.handle

    def finish(self) -> None:
        if not self.requests:
            return
        request = self.rng.choice(self.requests)
        if self.rng.random() < 0.7:
            self.insert(request, lock=None)
        self.close_request(request)

    def close_request(self, request: Request) -> None:
        self.requests.remove(request)
        parts = [self.end_load, self.end_lock, self.end_pages]
        self.rng.shuffle(parts)
        for part in parts:
            part(request)
            self.cache.check()

    def end_load(self, request: Request) -> None:
        if request.load is not None:
            request.load.release()
            request.load.release()

    def end_lock(self, request: Request) -> None:
        if request.handle is not None:
            self.cache.unlock(request.handle)
            request.handle = None

    def end_pages(self, request: Request) -> None:
        self.cache.free(sorted(request.own))
        request.own.clear()

    def evict_device(self) -> None:
        wanted = self.rng.randrange(20)
        before = self.cache.stats().device
        freed = self.cache.evict_device(wanted)
        assert freed % PAGE == 0 and freed <= -(-wanted // PAGE) * PAGE
        assert freed >= min(-(-wanted // PAGE), before.evictable_pages) * PAGE

    def evict_host(self) -> None:
        wanted = self.rng.randrange(20)
        before = self.cache.stats().host
        freed = self.cache.evict_host(wanted)
        assert freed % PAGE == 0 and freed <= -(-wanted // PAGE) * PAGE
        assert freed >= min(-(-wanted // PAGE), before.evictable_pages) * PAGE

    def poll(self) -> None:
        self.cache.poll(self.rng.choice([None, 1, 2]))

    def toggle_hold(self) -> None:
        direction = self.rng.choice(["h2d", "d2h"])
        if self.is_held[direction]:
            self.held[direction].close()
        else:
            self.held[direction].enter_context(testing.hold(self.cache, direction))
        self.is_held[direction] = not self.is_held[direction]

    def open_holds(self) -> None:
        for direction, stack in self.held.items():
            stack.close()
            self.is_held[direction] = False

    def fail_save(self) -> None:
        """The next save that is submitted fails; make sure there is one."""
        if self.rng.random() < 0.5:
            testing.fail_next(self.cache, "d2h", self.rng.randrange(2))

    def disarm(self) -> None:
        """Use up an armed failure on a load of nothing the cache knows about."""
        self.cache.engine.submit("h2d", np.empty(0, np.int64), np.empty(0, np.int64)).wait_end()

    def look(self) -> None:
        tokens, namespace = self.some_tokens()
        self.match(tokens, namespace, count=False)

    def drain(self) -> None:
        self.open_holds()
        assert self.cache.drain(30)

    def flush(self) -> None:
        self.open_holds()
        owned = sum(len(r.own) for r in self.requests)
        kind = self.rng.random()
        if kind < 0.7:
            report = self.cache.reset()
            assert report.owned_pages == owned
            stats = self.cache.stats()
            assert report.kept_host_tokens == stats.host.evictable_pages * PAGE
            assert stats.device.evictable_pages == stats.device.locked_pages == 0
        elif kind < 0.9:
            self.cache.clear()
        else:
            self.cache.invalidate()
            assert self.cache.drain(30)
        self.bad_loads.clear()
        assert self.cache.stats().device.owned_pages == owned
        for request in list(self.requests):
            if self.rng.random() < 0.5 and request.handle is not None:
                self.cache.unlock(request.handle)
            request.handle = None
            self.close_request(request)

    # -- checks ---------------------------------------------------------------------------------

    def match(self, tokens, namespace, count=True) -> hc.PrefixMatch:
        match = self.cache.match_prefix(tokens, extra_key=namespace, count=count)
        for i, page in enumerate(match.device_pages):
            ident = identity(namespace, tokens, i)
            assert device_holds(self.cache, page, ident), f"device page {page} at {i}"
        first = len(match.device_pages)
        for i, page in enumerate(match.host_pages, start=first):
            ident = identity(namespace, tokens, i)
            assert host_holds(self.cache, page, ident), f"host page {page} at {i}"
        return match

    def verify_requests(self) -> None:
        """Pages that a request uses keep their bytes as long as it protects them."""
        for request in self.requests:
            loaded = set() if request.load is None else set(request.load.pages.tolist())
            ready = request.load is not None and request.load.done() and not request.load.error
            for position, page in enumerate(request.pages):
                if page in loaded and not ready:
                    continue
                if request.handle is None and page not in request.own and page not in loaded:
                    continue
                ident = identity(request.namespace, request.tokens, position)
                if not (request.doomed and page not in loaded):
                    assert device_holds(self.cache, page, ident), (position, page, request)

    def verify_counters(self) -> None:
        now = self.cache.stats()
        for name, value in vars(now).items():
            if isinstance(value, int) and not name.endswith("in_flight"):
                assert value >= getattr(self.last, name), name
        self.last = now

    def some_tokens(self) -> tuple[np.ndarray, str | None]:
        length = self.rng.choice([0, 1, 3, 4, 7, 8, 12, 16, 20, 23, 28])
        tokens = np.array([self.rng.randrange(2) * (i % 5 == 0) for i in range(length)])
        return tokens.astype(np.int64), self.rng.choice([None, None, "lora"])

    def end(self) -> None:
        """All requests end, all copies are in: nothing may be left locked or in flight."""
        self.open_holds()
        for request in list(self.requests):
            self.close_request(request)
        assert self.cache.drain(30)
        self.cache.check()
        stats = self.cache.stats()
        assert stats.device.locked_pages == stats.host.locked_pages == 0
        assert stats.device.owned_pages == stats.host.owned_pages == 0
        self.cache.close()
