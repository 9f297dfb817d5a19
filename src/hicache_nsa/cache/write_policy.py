"""When a node is saved: at insert, from its n-th hit on, or when it is evicted from the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hicache_nsa.tree import Node

WRITE_POLICIES = ("write_through", "write_through_selective", "write_back")


@dataclass(frozen=True)
class WritePolicy:
    """threshold: hits from which a node is saved; None: no number of hits is enough.

    at_match: looked at whenever a match counts a hit, not only at insert.
    at_eviction: pages without a host copy are saved when they are evicted from the device.
    """

    name: str
    threshold: int | None
    at_match: bool = False
    at_eviction: bool = False

    def due(self, path: Sequence[Node]) -> Node | None:
        """The deepest node of ``path`` that should have a host copy by its hits.

        Hits never rise from a node to the one below it: all nodes above are due as well.
        """
        if self.threshold is None:
            return None
        for node in reversed(path):
            if node.hits >= self.threshold:
                return node
        return None


def write_policy(name: str, threshold: int) -> WritePolicy:
    """The policy of that name. ``threshold``: of ``write_through_selective``."""
    if name == "write_back":
        return WritePolicy(name, None, at_eviction=True)
    if name == "write_through":
        return WritePolicy(name, 1)
    return WritePolicy(name, threshold, at_match=True)
