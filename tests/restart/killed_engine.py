"""A random engine that reports each call before and after it, so that it can be killed any time."""

from __future__ import annotations

import os
import pickle
import random
import struct
import zlib
from typing import Any

import numpy as np
from engine import PAGE, Engine, host_holds
from kill_model import Known, Mark
from sudden_end import SuddenEnd

import hicache_nsa as hc

NAMESPACES = (None, None, "lora", "a long one " * 9)
BY_KEY = {hc.tokens.short_namespace(name): name for name in NAMESPACES}
LONG_CALL = 400.0  # microseconds
HARMLESS = ("stats", "lock", "unlock", "free")
REPORTED = [
    "allocate",
    "free",
    "insert",
    "match_prefix",
    "load_back",
    "lock",
    "unlock",
    "evict_device",
    "evict_host",
    "poll",
    "drain",
    "reset",
    "clear",
    "invalidate",
    "stats",
    "close",
]


def marks_of(name: str | None, tokens: np.ndarray) -> list[Mark]:
    """Of each whole page of ``tokens``; the checksum is the engine's ``identity``."""
    marks, value = [], len(name or "")
    for end in range(PAGE, len(tokens) + 1, PAGE):
        value = zlib.crc32(tokens[end - PAGE : end].tobytes(), value)
        marks.append((name, end, value))
    return marks


def pages_on_host(cache: hc.HiCache) -> dict[Mark, int]:
    """The host page of everything that the tree has there."""
    return {mark: page for mark, page in _walk(cache) if page is not None}


def cached_pages(cache: hc.HiCache) -> frozenset[Mark]:
    """Everything in the tree, in any tier."""
    return frozenset(mark for mark, _ in _walk(cache))


def _walk(cache: hc.HiCache) -> list[tuple[Mark, int | None]]:
    found: list[tuple[Mark, int | None]] = []
    for key, root in list(cache.tree.roots.items()):
        name = BY_KEY[key]
        stack = [(child, len(name or "")) for child in root.children.values()]
        while stack:
            node, value = stack.pop()
            tokens = node.key.numpy()
            pages = node.host_pages.tolist()
            for index, at in enumerate(range(0, len(tokens), PAGE)):
                value = zlib.crc32(tokens[at : at + PAGE].tobytes(), value)
                page = pages[index] if index < len(pages) else None
                found.append(((name, node.start + at + PAGE, value), page))
            stack.extend((child, value) for child in node.children.values())
    return found


def flying_pages(cache: hc.HiCache) -> frozenset[Mark]:
    """Pages of the saves in flight."""
    marks: set[Mark] = set()
    for save in cache._state.saves:
        if save.tree is not cache.tree:
            continue
        path = save.node.path()
        tokens = np.concatenate([node.key.numpy() for node in path])
        name = BY_KEY[path[0].parent.namespace]
        marks.update(m for m in marks_of(name, tokens) if save.start < m[1] <= save.end)
    return frozenset(marks)


class Pipe:
    """Messages to the driver: a length, then a pickle. What was cut off was not said."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def send(self, *message: Any) -> None:
        body = pickle.dumps(message)
        data = struct.pack("<I", len(body)) + body
        while data:
            data = data[os.write(self.descriptor, data) :]


class Reporting:
    """A cache each of whose calls is reported. Calls that a LoadBack makes are not: around them
    stands a report of the engine's whole step.
    """

    def __init__(
        self,
        cache: hc.HiCache,
        pipe: Pipe,
        checked: bool,
        last_call: int | None,
        rng: random.Random,
    ) -> None:
        self.cache = cache
        self.pipe = pipe
        self.checked = checked
        self.calls = 0
        self.last_call = last_call
        self.rng = rng
        self.sudden = SuddenEnd()
        self.told = set(pages_on_host(cache))

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.cache, name)
        if name == "check" and not self.checked:
            return lambda: None
        if name not in REPORTED:
            return value

        def call(*args: Any, **kwargs: Any) -> Any:
            self.begin(name, args[0] if name == "evict_host" else 0)
            self.calls += name not in HARMLESS
            if self.last_call is not None and self.calls > self.last_call:
                self.sudden.arm(self.rng.random() ** 2 * LONG_CALL)
            try:
                return value(*args, **kwargs)
            finally:
                self.end()

        return call

    def begin(self, call: str, evicting: int = 0) -> None:
        flying, room = flying_pages(self.cache), self.room()
        self.pipe.send("begin", call, evicting, flying, cached_pages(self.cache), room)

    def end(self) -> None:
        now = set(pages_on_host(self.cache))
        added, gone = now - self.told, self.told - now
        self.told = now
        self.pipe.send("end", added, gone, flying_pages(self.cache), self.room())

    def room(self) -> bool:
        """Whether no call can be short of host pages: it saves no more than the device has."""
        return self.cache.host_pool.free_pages >= self.cache.device_pool.total_pages


class KilledEngine(Engine):
    """See the module. checked: run the cache's own ``check()`` after each step. last_call: kill
    the process in (or right after) the call that comes after so many; None: somebody else will.
    """

    def __init__(
        self,
        seed: int,
        known: Known,
        pipe: Pipe,
        checked: bool,
        last_call: int | None,
        **options: Any,
    ) -> None:
        super().__init__(seed, **options)
        self.pipe = pipe
        self.attach(known)
        self.cache = Reporting(self.cache, pipe, checked, last_call, self.rng)  # type: ignore

    def attach(self, known: Known) -> None:
        """Compare what is there with what the model knows, byte by byte; then report it."""
        cache = self.cache
        there = pages_on_host(cache)
        wrong = known.wrong(set(there), PAGE)
        assert wrong is None, wrong
        assert cache.stats().restored_host_tokens == len(there) * PAGE
        assert cache.stats().damaged_host_pages == 0
        for (name, end, value), page in there.items():
            assert host_holds(cache, page, value), f"page {page}, {name} up to {end}: other bytes"
        cache.check()
        for name, end, value in list(there)[:20]:
            self.ask(name, end, value)
        self.pipe.send("attached", set(there))

    def ask(self, name: str | None, end: int, value: int) -> None:
        """The prefix matches under its own key, and under another one only what was put there."""
        for node in self.cache.tree.nodes():
            if node.end < end:
                continue
            tokens = np.concatenate([part.key.numpy() for part in node.path()])[:end]
            for other in set(NAMESPACES):
                marks = marks_of(other, tokens)
                there = pages_on_host(self.cache)
                want = next((i for i, mark in enumerate(marks) if mark not in there), len(marks))
                match = self.match(tokens, other, count=False)
                assert match.host_tokens == want * PAGE, (name, other, end, match.host_tokens)
            return

    def step(self) -> str:
        self.cache.begin("step")
        try:
            return super().step()
        finally:
            self.cache.end()

    def some_tokens(self) -> tuple[np.ndarray, str | None]:
        return super().some_tokens()[0], self.rng.choice(NAMESPACES)


def life_options(rng: random.Random) -> dict[str, Any]:
    """What stays the same as long as one file is used."""
    host_pages = rng.choice([8, 12, 40, 400])
    return {"host_pages": host_pages, "layout": rng.choice(["layer_first", "page_first"])}


def process_options(rng: random.Random) -> dict[str, Any]:
    """What may differ from process to process."""
    return {
        "device_pages": rng.choice([16, 24, 40]),
        "acks": rng.choice(["auto", "poll"]),
        "write_policy": rng.choice(["write_through", "write_through_selective", "write_back"]),
        "eviction_policy": rng.choice(["lru", "lfu", "fifo", "priority"]),
        "prefault": rng.choice([True, False]),
    }
