"""A small cache that is checked after every call, in the words of the failure cases.

Numbers are tokens. The page size is 4, as in most cases; a record has latent and indexer bytes.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from case_bytes import contents, device_holds, device_wiped, fill, host_holds, wipe

import hicache_nsa as hc
from hicache_nsa.tokens import namespace, token_span

P = 4
FORMAT = hc.formats.dsa(3, page_size=P, kv_lora_rank=128, rope_head_dim=4)
LONG = 30.0  # seconds: long enough for anything on a busy machine


class Tokens(NamedTuple):
    """Tokens of one tier by state; owned: held by callers or copies."""

    free: int
    evictable: int
    locked: int
    owned: int


class CaseCache:
    """A ``HiCache`` behind which ``check()`` runs after each call."""

    def __init__(self, device: int, host: int, **options: Any) -> None:
        options.setdefault("format", FORMAT)
        size = options["format"].page_size
        fmt = options.pop("format")
        self.cache = hc.HiCache(
            fmt, device_pages=device // size, host_pages=host // size, **options
        )
        self.page_size = size
        reserved = len(options.get("device_reserved", ()))
        self.totals = ((device // size - reserved) * size, host // size * size)
        wipe(self.cache.device_pool)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.cache, name)
        if not callable(value) or isinstance(value, type):
            return value

        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return value(*args, **kwargs)
            finally:
                if name != "close":
                    self.check()

        return call

    def __enter__(self) -> CaseCache:
        return self

    def __exit__(self, *exc: object) -> None:
        self.cache.close()

    def check(self) -> None:
        self.cache.check()
        for node in self.cache.tree.nodes():
            assert node.lock_ref >= 0
            assert len(node.key) % self.page_size == 0

    # -- numbers --------------------------------------------------------------------------------

    def _tokens(self, tier: hc.TierStats, total: int) -> Tokens:
        parts = (tier.free_pages, tier.evictable_pages, tier.locked_pages, tier.owned_pages)
        tokens = Tokens(*(part * self.page_size for part in parts))
        assert sum(tokens) == total and min(tokens) >= 0
        return tokens

    @property
    def device(self) -> Tokens:
        return self._tokens(self.cache.stats().device, self.totals[0])

    @property
    def host(self) -> Tokens:
        return self._tokens(self.cache.stats().host, self.totals[1])

    def locks(self) -> list[int]:
        return [node.lock_ref for node in self.cache.tree.nodes()]

    # -- the words of the cases -----------------------------------------------------------------

    def compute(self, tokens: Iterable[int], extra: str = "") -> np.ndarray:
        """Allocate a page for each whole page of ``tokens`` and write its bytes."""
        known = contents(tokens, self.page_size, extra)
        pages = self.allocate(len(known))
        for page, content in zip(pages, known, strict=True):
            fill(self.cache.device_pool, page, content)
        return pages

    def compute_tail(self, tokens: list[int], known: int) -> np.ndarray:
        """The same for the pages behind the first ``known`` tokens."""
        new = contents(tokens, self.page_size)[known // self.page_size :]
        pages = self.allocate(len(new))
        for page, content in zip(pages, new, strict=True):
            fill(self.cache.device_pool, page, content)
        return pages

    def put(self, tokens: Iterable[int], extra_key: str | None = None, **options: Any) -> Any:
        """ins(K): compute and insert all whole pages."""
        tokens = list(tokens)
        pages = self.compute(tokens, extra_key or "")
        return self.insert(tokens, pages, extra_key=extra_key, **options)

    def put_on_host(self, *prompts: Iterable[int]) -> None:
        """Insert, save, and leave only the host copies; the device bytes are wiped."""
        for prompt in prompts:
            self.put(prompt)
            assert self.drain(LONG)
        self.evict_device(self.totals[0])
        assert self.drain(LONG)
        self.wipe_free()

    def wipe_free(self, owned: Iterable[int] = ()) -> None:
        """Overwrite every device page but the tree's and those that callers own."""
        pool = self.cache.device_pool
        used = {int(page) for node in self.cache.tree.nodes() for page in node.device_pages}
        wipe(pool, set(range(pool.num_pages)) - used - set(map(int, owned)))

    def hit(self, tokens: Iterable[int], **options: Any) -> tuple[int, int]:
        """match(K) = (device tokens, host tokens)."""
        match = self.match_prefix(list(tokens), **options)
        return match.device_tokens, match.host_tokens

    def start_load(self, tokens: Iterable[int]) -> hc.LoadBack:
        load = self.load_back(self.match_prefix(list(tokens)))
        assert load is not None
        return load

    def release(self, load: hc.LoadBack) -> None:
        load.release()
        self.check()

    def settle(self, *directions: str) -> None:
        """Wait until no copy (of these directions) runs, without taking any in."""
        limit = time.monotonic() + LONG
        for direction in directions or ("h2d", "d2h"):
            while self.cache.engine.in_flight(direction):
                assert time.monotonic() < limit
                time.sleep(0.001)

    # -- bytes ----------------------------------------------------------------------------------

    def holds(self, pages: Iterable[int], tokens: Iterable[int], first: int = 0) -> bool:
        """Whether device ``pages`` hold the whole pages of ``tokens`` from ``first`` on."""
        known = contents(tokens, self.page_size)[first:]
        pages = list(pages)
        assert len(pages) == len(known)
        return all(map(device_holds, [self.cache.device_pool] * len(pages), pages, known))

    def host_is(self, tokens: Iterable[int], extra_key: str | None = None) -> bool:
        """Whether the host copies of all whole pages of ``tokens`` are right."""
        tokens = list(tokens)
        known = contents(tokens, self.page_size, extra_key or "")
        path, end = self.cache.tree.find(token_span(tokens), namespace(extra_key))
        pages = [int(page) for node in path for page in node.host_pages]
        assert end == len(known) * self.page_size
        pool = self.cache.host_pool
        return len(pages) >= len(known) and all(
            host_holds(pool, page, content) for page, content in zip(pages, known, strict=False)
        )

    def wiped(self, pages: Iterable[int]) -> bool:
        return all(device_wiped(self.cache.device_pool, int(page)) for page in pages)
