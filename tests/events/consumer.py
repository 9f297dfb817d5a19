"""A router's side: sets of page keys by tier, made from events alone, and what holds of them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import hicache_nsa as hc
from hicache_nsa.cache import Cleared, KvEvent, Removed, Stored
from hicache_nsa.cache.kv_events import extra_key_text

Page = tuple[int | None, tuple[int, ...], str | None]  # parent, tokens, extra_key
Sets = dict[str, dict[int, Page]]


def cached(cache: hc.HiCache) -> Sets:
    """What is cached, by a walk of the tree: by tier the page keys, and what they stand for."""
    tree = cache.tree
    found: Sets = {"device": {}, "host": {}}
    for node in tree.nodes():
        root = node
        while root.parent is not None:
            root = root.parent
        above = None if node.parent is root else int(node.parent.page_keys[-1])
        tokens = node.key.numpy().reshape(-1, tree.page_size).tolist()
        for index, key in enumerate(node.page_keys.tolist()):
            page = (above, tuple(tokens[index]), extra_key_text(root.namespace))
            for tier in (tree.device, tree.host):
                if index < tier.count(node):
                    found[tier.name][key] = page
            above = key
    return found


class Consumer:
    """Applies events one after the other and refuses those that make no sense."""

    def __init__(self) -> None:
        self.tiers: Sets = {"device": {}, "host": {}}

    @property
    def sets(self) -> Sets:
        return {name: dict(pages) for name, pages in self.tiers.items()}

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
            tokens = event.tokens[index * size : (index + 1) * size]
            resident[key] = (parent, tokens, event.extra_key)

    def _remove(self, event: Removed) -> None:
        resident = self.tiers[event.tier]
        assert event.page_keys
        for key in reversed(event.page_keys):
            assert key in resident, f"{key} was not in {event.tier}"
            del resident[key]
        left = set(event.page_keys) & {parent for parent, _, _ in resident.values()}
        assert not left, f"{left} went before what lies below"
