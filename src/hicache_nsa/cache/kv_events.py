"""KV events: which pages came into a tier and which left it, for routers.

What is recorded inside a call of the cache is small (bytes that a node has anyway); it becomes
events, with tuples of numbers, where they are taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from hicache_nsa.tokens import PACKED_KEY, UINT64
from hicache_nsa.tree import Node
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


Record: TypeAlias = StoredRecord | RemovedRecord | Cleared


def stored_record(tier: str, node: Node, old: int, new: int) -> StoredRecord:
    """Pages ``old`` to ``new - 1`` of ``node`` came into ``tier``."""
    keys = node.packed_keys
    start, stop = old * PACKED_KEY, new * PACKED_KEY
    above = node.parent
    assert above is not None
    parent: bytes | None = None
    if old:
        parent = keys[start - PACKED_KEY : start]
    elif above.parent is not None:
        parent = above.packed_keys[-PACKED_KEY:]
    page = len(node.packed_key) * PACKED_KEY // len(keys)  # bytes of a page's tokens
    while above.parent is not None:
        above = above.parent
    assert isinstance(above, Root)
    return StoredRecord(
        tier,
        keys[start:stop],
        parent,
        node.packed_key[old * page : new * page],
        above.namespace,
    )


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
        tokens=tuple(np.frombuffer(packed, dtype=f"i{width}").tolist()),
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
    return tuple(np.frombuffer(keys, dtype=UINT64).tolist())
