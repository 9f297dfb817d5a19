"""Host pages go wrong at random moments: none is served, each is found once, the books balance."""

from __future__ import annotations

import pytest
from engine import PAGE, Engine, host_holds, identity

import hicache_nsa as hc
from hicache_nsa import testing


class SpoilingEngine(Engine):
    """An engine on memory that flips bits."""

    spoils = True

    def __init__(self, seed: int, **options) -> None:
        super().__init__(seed, verify="all", **options)
        self.spoiled: set[int] = set()  # host pages

    def more_steps(self):
        return {self.spoil: 8, self.serve: 8, self.evict_device: 6}

    def spoil(self) -> None:
        cached = [int(page) for node in self.cache.tree.nodes() for page in node.host_pages]
        right = [page for page in cached if page not in self.spoiled]
        if right:
            page, layer = self.rng.choice(right), self.rng.randrange(3)
            byte = self.rng.randrange(560 if layer == 1 else 1088)
            testing.corrupt(self.cache, page, layer, byte)
            self.spoiled.add(page)

    def serve(self) -> None:
        """Load what a prompt has on host until it comes: a wrong page fails one load, not all."""
        self.open_holds()
        tokens, namespace = self.some_tokens()
        wrong = len(self.spoiled)
        for _ in range(wrong + 2):
            assert self.cache.drain(30)
            match = self.match(tokens, namespace)
            load = self.cache.load_back(match)
            if load is None:
                return
            assert load._loads[-1].ticket.wait_end(30)
            error = load.error
            load.release()
            if error is None:
                return
        raise AssertionError(f"{wrong} wrong pages, and more loads failed than that")

    def bring(self, match: hc.PrefixMatch) -> hc.LoadBack | None:
        load = self.cache.load_back(match)
        assert load is None or load.tokens <= match.host_tokens
        return load

    def evict_host(self) -> None:
        wanted = self.rng.randrange(20)
        freed = self.cache.evict_host(wanted)
        assert freed % PAGE == 0 and freed <= -(-wanted // PAGE) * PAGE

    def match(self, tokens, namespace, count=True) -> hc.PrefixMatch:
        """A page that was saved anew is right again."""
        match = self.cache.match_prefix(tokens, extra_key=namespace, count=count)
        first = len(match.device_pages)
        for i, page in enumerate(match.host_pages.tolist(), start=first):
            if host_holds(self.cache, page, identity(namespace, tokens, i)):
                self.spoiled.discard(page)
            else:
                assert page in self.spoiled
        return match


OPTIONS = [
    {},
    {"layout": "layer_first", "device_pages": 12, "host_pages": 40},
    {"write_policy": "write_back", "device_pages": 14, "host_pages": 30},
    {"write_policy": "write_through_selective", "eviction_policy": "lfu"},
    {"acks": "poll", "device_pages": 20},
    {"acks": "poll", "write_policy": "write_back", "device_pages": 12},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_no_wrong_page_is_served_and_none_fails_twice(options) -> None:
    found = failed = 0
    for seed in range(12):
        engine = SpoilingEngine(seed, **{"device_pages": 16, "host_pages": 24, **options})
        for _ in range(300):
            engine.step()
        stats = engine.cache.stats()
        found += stats.corrupt_pages
        failed += stats.failed_loads
        engine.end()
    assert found > 5 and failed > 5
