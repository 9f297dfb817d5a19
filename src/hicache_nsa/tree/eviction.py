"""Eviction policies: which leaf of a tier gives up its pages first.

A policy of one's own is a class with a name and a key, handed to the cache as an instance::

    class LongestUnused(EvictionPolicy):
        name = "longest_unused"

        def key(self, node):
            return (node.hits > 3, node.last_access)

    HiCache(format, eviction_policy=LongestUnused(), ...)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from hicache_nsa.tree.node import Node


class EvictionPolicy(ABC):
    """The order in which leaves give up pages; one object for both tiers.

    name: what it is called, not empty.
    may_fall: whether a use (a match, an insert) may make a node's key smaller. Such a node is
        queued anew at each use; other policies pay for a use only when the node comes up.
    """

    name: str
    may_fall: bool = False

    @abstractmethod
    def key(self, node: Node) -> Any:
        """What orders the leaves: the smallest goes first, of equal ones the first created.

        Depends on nothing but ``node.last_access``, ``hits``, ``created`` and ``priority``, never
        raises, and compares with the key of any other node (an int, or a tuple of ints).
        """


class Lru(EvictionPolicy):
    """Least recently used."""

    name = "lru"

    def key(self, node: Node) -> int:
        """When it was last used."""
        return node.last_access


class Lfu(EvictionPolicy):
    """Least frequently used, among equals least recently."""

    name = "lfu"

    def key(self, node: Node) -> tuple[int, int]:
        """Hits, then the last use."""
        return node.hits, node.last_access


class Fifo(EvictionPolicy):
    """First created."""

    name = "fifo"

    def key(self, node: Node) -> int:
        """When it was created."""
        return node.created


class Mru(EvictionPolicy):
    """Most recently used."""

    name = "mru"
    may_fall = True

    def key(self, node: Node) -> int:
        """The last use, the latest first."""
        return -node.last_access


class Filo(EvictionPolicy):
    """Last created."""

    name = "filo"

    def key(self, node: Node) -> int:
        """The creation, the latest first."""
        return -node.created


class Slru(EvictionPolicy):
    """What was never hit since its creation before all else; least recently used within both."""

    name = "slru"

    def key(self, node: Node) -> tuple[bool, int]:
        """Whether it is protected by a second hit, then the last use."""
        return node.hits > 1, node.last_access


class Priority(EvictionPolicy):
    """Lowest priority, among equals least recently used."""

    name = "priority"

    def key(self, node: Node) -> tuple[int, int]:
        """The priority, then the last use."""
        return node.priority, node.last_access


_POLICIES = {p.name: p for p in (Lru, Lfu, Fifo, Mru, Filo, Slru, Priority)}
EVICTION_POLICIES = tuple(_POLICIES)


def eviction_policy_of(value: Any) -> EvictionPolicy:
    """The policy that ``value`` names, or ``value`` itself where it is one.

    Raises:
        ValueError: an unknown name, or a policy whose key does not order nodes.
        TypeError: neither a name nor an instance of a class of policies.
    """
    if isinstance(value, str):
        if value not in _POLICIES:
            raise ValueError(
                f"eviction_policy={value!r} is unknown; known: {', '.join(EVICTION_POLICIES)}, or "
                f"an instance of your own subclass of hicache_nsa.tree.EvictionPolicy"
            )
        return _POLICIES[value]()
    if isinstance(value, type) and issubclass(value, EvictionPolicy):
        raise TypeError(f"eviction_policy is the class {value.__name__}: give an instance of it")
    if not isinstance(value, EvictionPolicy):
        raise TypeError(
            f"eviction_policy must be a name ({', '.join(EVICTION_POLICIES)}) or an instance of "
            f"an EvictionPolicy, got {type(value).__name__}"
        )
    _try_out(value)
    return value


def _try_out(policy: EvictionPolicy) -> None:
    """Refuse a policy without a name, or whose keys of two nodes do not compare."""
    kind = type(policy).__name__
    name = getattr(policy, "name", None)
    if not isinstance(name, str) or not name:
        raise TypeError(f"{kind}.name must be a string that is not empty, got {name!r}")
    if not isinstance(policy.may_fall, bool):
        raise TypeError(f"{kind}.may_fall must be True or False, got {policy.may_fall!r}")
    node = Node(b"", b"", None, 0, 0)
    node.hits = node.last_access = node.created = 1
    try:
        first = policy.key(node)
        node.last_access, node.hits, node.priority = 2, 2, 1
        second = policy.key(node)
        ordered = (first < second) + (first == second) + (second < first)
    except Exception as error:
        raise TypeError(f"{kind}.key(node) fails or gives no order: {error}") from error
    if ordered != 1:
        raise ValueError(
            f"{kind}.key(node) gives no order: of {first!r} and {second!r}, {int(ordered)} of <, "
            f"== and > hold, not 1; give an int or a tuple of ints"
        )
