"""A router's side: sets of page keys by tier, made from events alone, and what holds of them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import hicache_nsa as hc
from hicache_nsa.cache import Cleared, KvEvent, Removed, Stored

Sets = dict[str, set[int]]
Page = tuple[int | None, tuple[int, ...], str | None]  # parent, tokens, extra_key


def cached(cache: hc.HiCache) -> Sets:
    """What is cached, by a walk of the tree."""
    tree = cache.tree
    return {
        tier.name: {int(key) for node in tree.nodes() for key in node.page_keys[: tier.count(node)]}
        for tier in (tree.device, tree.host)
    }


class Consumer:
    """Applies events one after the other and refuses those that make no sense.

    pages: what each key was ever said to stand for; never two things.
    """

    def __init__(self) -> None:
        self.tiers: dict[str, dict[int, int | None]] = {"device": {}, "host": {}}
        self.pages: dict[int, Page] = {}

    @property
    def sets(self) -> Sets:
        return {name: set(pages) for name, pages in self.tiers.items()}

    def apply(self, events: Iterable[KvEvent]) -> None:
        for event in events:
            if isinstance(event, Stored):
                self._store(event)
            elif isinstance(event, Removed):
                self._remove(event)
            else:
                assert event == Cleared()
                for pages in self.tiers.values():
                    pages.clear()

    def _store(self, event: Stored) -> None:
        resident, size = self.tiers[event.tier], event.page_size
        assert event.page_keys and len(event.tokens) == len(event.page_keys) * size
        assert event.parent_key is None or event.parent_key in resident, "before its parent"
        for index, (parent, key) in enumerate(pairwise((event.parent_key, *event.page_keys))):
            assert key is not None and 0 <= key < 1 << 64
            assert key not in resident, f"a second 'stored' of {key} in {event.tier}"
            resident[key] = parent
            page = (parent, event.tokens[index * size : (index + 1) * size], event.extra_key)
            assert self.pages.setdefault(key, page) == page, f"{key} stands for two pages"

    def _remove(self, event: Removed) -> None:
        resident = self.tiers[event.tier]
        assert event.page_keys
        for key in reversed(event.page_keys):
            assert key in resident, f"{key} was not in {event.tier}"
            del resident[key]
        left = set(event.page_keys) & set(resident.values())
        assert not left, f"{left} went before what lies below"
