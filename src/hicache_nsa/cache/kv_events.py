"""KV events: which pages came into a tier and which left it, for routers.

What is recorded inside a call of the cache is small (bytes that a node has anyway); it becomes
events, with tuples of numbers, where they are taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from hicache_nsa.tokens import PACKED_KEY, PACKED_PAGE
from hicache_nsa.tree import Node, RadixTree
from hicache_nsa.tree.node import Root


@dataclass(frozen=True)
class Stored:
    """Neighbouring pages of one prompt are in ``tier`` now, and were not before.

    tier: ``"device"`` or ``"host"``. page_keys: 64 bits each, in the order of the prompt; a key
        names a page with all tokens before it and its ``extra_key``.
    parent_key: of the page before the first one, which is in the tier; None at a prompt's start.
    tokens: of all these pages, ``page_size`` each.
    extra_key: the namespace as text: a short printable string as it was given, None where there was
        none; for all others (numbers, bytes, tuples, long strings) ``namespace:`` and hexadecimal
        digits, equal for equal keys only.
    """

    tier: str
    page_keys: tuple[int, ...]
    parent_key: int | None
    tokens: tuple[int, ...]
    page_size: int
    extra_key: str | None


@dataclass(frozen=True)
class Removed:
    """Neighbouring pages of one prompt, the last ones of it in ``tier``, are no longer there."""

    tier: str
    page_keys: tuple[int, ...]


@dataclass(frozen=True)
class Cleared:
    """Nothing is cached any more, in any tier."""


KvEvent: TypeAlias = Stored | Removed | Cleared


class StoredRecord(NamedTuple):
    """A ``Stored`` to be. parent, keys: page keys, packed_tokens: tokens, as a node has them."""

    tier: str
    keys: bytes
    parent: bytes | None
    packed_tokens: bytes
    namespace: bytes


class RemovedRecord(NamedTuple):
    """A ``Removed`` to be."""

    tier: str
    keys: bytes


_INTEGERS: dict[int, Literal["i", "q"]] = {4: "i", 8: "q"}
"""Packed tokens by their width in bytes, for ``memoryview.cast``."""
Record: TypeAlias = StoredRecord | RemovedRecord | Cleared


def stored_record(tier: str, node: Node, old: int, new: int) -> StoredRecord:
    """Pages ``old`` to ``new - 1`` of ``node`` came into ``tier``."""
    above = node.parent
    assert above is not None
    root = above
    while root.parent is not None:
        root = root.parent
    assert isinstance(root, Root)
    keys_above = None if above is root else above.packed_keys
    return _stored(tier, node.packed_keys, node.packed_key, keys_above, root.namespace, old, new)


def _stored(
    tier: str,
    keys: bytes,
    packed_tokens: bytes,
    keys_above: bytes | None,
    namespace: bytes,
    old: int,
    new: int,
) -> StoredRecord:
    """keys, packed_tokens: of a whole node. keys_above: of the one above it, None for a root."""
    start, stop = old * PACKED_KEY, new * PACKED_KEY
    last = keys[:start] if old else keys_above
    page = len(packed_tokens) * PACKED_KEY // len(keys)  # bytes of a page's tokens
    return StoredRecord(
        tier,
        keys[start:stop],
        None if last is None else last[-PACKED_KEY:],
        packed_tokens[old * page : new * page],
        namespace,
    )


class Inventory:
    """All that ``tree`` has in its tiers now, as records to be made later, outside the lock.

    Made in about a microsecond a node: it takes nothing but what nodes have anyway, and keeps it
    in flat lists, one a namespace, which the garbage collector passes over.
    """

    def __init__(self, tree: RadixTree) -> None:
        self._tiers = (tree.device.name, tree.host.name)
        self._namespaces: list[tuple[bytes, list[bytes | None]]] = []
        for root in tree.roots.values():
            found: list[bytes | None] = []
            stack: list[Node] = [root]
            while stack:
                node = stack.pop()
                if not node.children:
                    continue
                above = None if node.parent is None else node.packed_keys
                below = node.children.values()
                stack += below
                for each in below:
                    found += (
                        above,
                        each.packed_keys,
                        each.packed_key,
                        each.packed_value,
                        each.packed_host_value,
                    )
            self._namespaces.append((root.namespace, found))

    def records(self) -> Iterator[StoredRecord]:
        """Parents before what lies below them."""
        for namespace, found in self._namespaces:
            for above, keys, tokens, *tiers in zip(*[iter(found)] * 5, strict=True):
                assert keys is not None and tokens is not None
                for tier, pages in zip(self._tiers, tiers, strict=True):
                    if pages is not None:
                        count = len(pages) // PACKED_PAGE
                        yield _stored(tier, keys, tokens, above, namespace, 0, count)


def removed_record(tier: str, node: Node, old: int, new: int) -> RemovedRecord:
    """Pages ``new`` to ``old - 1`` of ``node`` left ``tier``."""
    return RemovedRecord(tier, node.packed_keys[new * PACKED_KEY : old * PACKED_KEY])


def event_of(record: Record, page_size: int) -> KvEvent:
    """The event that ``record`` stands for."""
    if isinstance(record, Cleared):
        return record
    keys = _numbers(record.keys)
    if isinstance(record, RemovedRecord):
        return Removed(record.tier, keys)
    packed = record.packed_tokens
    width = len(packed) // (len(keys) * page_size)
    return Stored(
        tier=record.tier,
        page_keys=keys,
        parent_key=None if record.parent is None else _numbers(record.parent)[0],
        tokens=tuple(memoryview(packed).cast(_INTEGERS[width])),
        page_size=page_size,
        extra_key=extra_key_text(record.namespace),
    )


def extra_key_text(namespace: bytes) -> str | None:
    """``Stored.extra_key`` of a namespace as the tree has it (``tokens.short_namespace``)."""
    if not namespace:
        return None
    if namespace[:1] == b"s":
        text = namespace[1 + 8 :].decode("utf-8", "surrogatepass")  # a tag and a length come first
        if text.isprintable() and text and not text.startswith("namespace:"):
            return text
    return f"namespace:{namespace.hex()}"


def _numbers(keys: bytes) -> tuple[int, ...]:
    return tuple(memoryview(keys).cast("Q"))
