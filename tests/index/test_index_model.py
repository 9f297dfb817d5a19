"""``PageIndex`` against the model: random stores, failures, pins and resets, every policy."""

from __future__ import annotations

import copy
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from index_model import ORDERS, IndexModel

import hicache_nsa as hc
from hicache_nsa.page_index import HIT, MISS, PENDING, POLICIES

PATHS = st.text(alphabet="abc", min_size=1, max_size=6)  # a key is the path that leads to it


def chain_of(path: str) -> list[str]:
    return [path[:end] for end in range(1, len(path) + 1)]


def given(key: str) -> Any:
    """As an engine gives it: paths that end with b are bytes."""
    return key.encode() if key.endswith("b") else key


def text(key: Any) -> str:
    return key if isinstance(key, str) else key.decode()


def draw_some(data: st.DataObject, keys: list[str], most: int | None = None) -> list[str]:
    if not keys:
        return []
    keys = sorted(keys)
    return data.draw(st.lists(st.sampled_from(keys), max_size=most or len(keys), unique=True))


class IndexMachine(RuleBasedStateMachine):
    policy = "lru"

    @initialize(pages=st.integers(1, 14))
    def make(self, pages: int) -> None:
        self.index = hc.PageIndex(pages, self.policy)
        self.model = IndexModel(pages, self.policy)
        self.everything: set[str] = set()

    @rule(
        path=PATHS,
        skip=st.integers(0, 5),
        orphan=st.booleans(),
        priority=st.integers(-2, 2),
        finish=st.booleans(),
    )
    def store(self, path: str, skip: int, orphan: bool, priority: int, finish: bool) -> None:
        chain = chain_of(path)[min(skip, len(path) - 1) :]
        parent = None if orphan else (chain[0][:-1] or None)
        self.everything |= {*chain}
        new, stored_chain, victims = self.model.plan_store(chain, parent)
        store = self.index.begin_store(
            [given(key) for key in chain],
            parent=None if parent is None else given(parent),
            priority=priority,
        )
        assert (store is None) == (victims is None)
        if store is None or victims is None:
            return
        assert store.keys == [given(key) for key in new]
        assert store.evicted == [given(key) for key in victims]
        pages = store.pages.tolist()
        held = {e.page for key, e in self.model.entries.items() if key not in victims}
        assert len(pages) == len(new) and pages == sorted(set(pages) - held)
        by_key = dict(zip(new, pages, strict=True))
        self.model.begin_store(stored_chain, parent, priority, victims, by_key)
        if finish:
            self.finish_keys(new, True)

    def finish_keys(self, keys: list[str], success: bool) -> None:
        before = copy.deepcopy(self.model)
        dropped = self.index.finish_store([given(key) for key in keys], success)
        assert {*map(text, dropped)} == self.model.finish_store(keys, success)
        assert len({*dropped}) == len(dropped)
        order = [key for key in map(text, dropped) if not before.entries[key].withheld]
        for key in order:
            parent = before.entries[key].parent
            assert parent not in order or order.index(key) < order.index(parent)

    @rule(data=st.data(), success=st.booleans())
    def finish(self, data: st.DataObject, success: bool) -> None:
        being_stored = [key for key, e in self.model.entries.items() if e.state == PENDING]
        self.finish_keys(draw_some(data, being_stored), success)

    @rule(data=st.data(), repeat=st.booleans())
    def pin(self, data: st.DataObject, repeat: bool) -> None:
        keys = draw_some(data, self.model.with_state(HIT), 4)
        keys += keys[:1] * repeat
        pages = self.index.pin([given(key) for key in keys])
        assert pages.tolist() == [self.model.entries[key].page for key in keys]
        self.model.pin(keys)

    @rule(data=st.data())
    def unpin(self, data: st.DataObject) -> None:
        pinned = [key for key, e in self.model.entries.items() for _ in range(e.pins)]
        keys = data.draw(st.permutations(pinned))[: data.draw(st.integers(0, len(pinned)))]
        self.index.unpin([given(key) for key in keys])
        self.model.unpin(keys)

    @rule(data=st.data())
    def touch(self, data: st.DataObject) -> None:
        keys = draw_some(data, [*self.everything])
        self.index.touch([given(key) for key in keys])
        self.model.touch(keys)

    @rule(data=st.data())
    def refused(self, data: st.DataObject) -> None:
        keys = draw_some(data, [*self.everything], 3)
        states = [self.model.state(key) for key in keys]
        wrong_pins = [key for key in keys if not self.pins(key)]
        if any(state != HIT for state in states):
            with pytest.raises(KeyError, match=r"nothing was pinned"):
                self.index.pin([given(key) for key in keys])
        if wrong_pins:
            with pytest.raises(ValueError, match=r"nothing was unpinned"):
                self.index.unpin([given(key) for key in keys])
        if any(not self.being_stored(key) for key in keys):
            with pytest.raises(ValueError, match=r"nothing was finished"):
                self.index.finish_store([given(key) for key in keys], False)
        if keys:
            with pytest.raises(ValueError, match=r"again"):
                self.index.begin_store([given(key) for key in [*keys, keys[0]]])

    def pins(self, key: str) -> int:
        return self.model.entries[key].pins if key in self.model.entries else 0

    def being_stored(self, key: str) -> bool:
        return key in self.model.entries and self.model.entries[key].state == PENDING

    @rule(unlikely=st.integers(0, 3))
    def reset(self, unlikely: int) -> None:
        if unlikely == 0:
            assert self.index.reset() == self.model.reset()

    @invariant()
    def same(self) -> None:
        if not hasattr(self, "index"):
            return
        self.index.check()
        keys = sorted(self.everything)
        states = [self.model.state(key) for key in keys]
        assert self.index.lookup([given(key) for key in keys]).tolist() == states
        stats = self.index.stats()
        entries = self.model.entries.values()
        assert stats.free_pages == self.model.free
        assert stats.hit_pages == states.count(HIT)
        assert stats.pending_pages == states.count(PENDING)
        assert stats.withheld_pages == sum(e.withheld for e in entries)
        assert stats.pinned_pages == sum(e.pins > 0 and not e.withheld for e in entries)
        assert len(self.index) == len(states) - states.count(MISS)
        for key in keys:
            chain = chain_of(key)
            hits = [self.model.state(each) == HIT for each in chain]
            expected = (*hits, False).index(False)
            assert self.index.prefix([given(each) for each in chain]) == expected

    def teardown(self) -> None:
        """Nothing pinned, nothing pending: all must go, and in the right order."""
        if not hasattr(self, "index"):
            return
        self.finish_keys([key for key in self.everything if self.being_stored(key)], True)
        pinned = [key for key, e in self.model.entries.items() for _ in range(e.pins)]
        self.index.unpin([given(key) for key in pinned])
        self.model.unpin(pinned)
        order = self.model.victims(len(self.model.entries), set())
        assert order is not None
        store = self.index.begin_store([f"end {n}" for n in range(self.model.pages)])
        assert store is not None and store.evicted == [given(key) for key in order]
        assert sorted(store.pages) == [*range(self.model.pages)]
        self.index.check()


def test_the_model_knows_every_policy() -> None:
    assert set(ORDERS) == set(POLICIES)


@pytest.mark.parametrize("policy", POLICIES)
def test_against_the_model(policy: str) -> None:
    case = type(f"{policy}Machine", (IndexMachine,), {"policy": policy}).TestCase
    case.settings = settings(
        max_examples=60,
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    case().runTest()
