"""``tree_digest``: 64 bits that two trees share only if they are the same tree.

For ranks that compare their trees. A walk over all nodes and their tokens: good for a check now and
then, too slow for every step of a large tree.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

from hicache_nsa.tokens import PageIds
from hicache_nsa.tree.node import Node
from hicache_nsa.tree.radix_tree import RadixTree

DIGEST_BYTES = 8
CHAIN_BYTES = 16
# What decides beside tokens and pages. Attributes of ``Node``, plain values.
PLAIN = ("start", "end", "lock_ref", "leaving", "hits", "priority", "created", "last_access")


def tree_digest(tree: RadixTree) -> int:
    """0 .. 2**64 - 1, of every root and node, whatever the order of roots and of children.

    A node counts with its namespace and all tokens from the root down, where it starts and ends,
    its device and host pages, ``PLAIN``, and whether a load or a save of it is in flight.
    """
    total = 0
    stack: list[tuple[Node, bytes]] = []
    for namespace, root in tree.roots.items():
        total += digest_of([b"root", namespace])
        stack.append((root, blake2b(namespace, digest_size=CHAIN_BYTES).digest()))
    while stack:
        parent, above = stack.pop()
        for node in parent.children.values():
            chain = blake2b(above, digest_size=CHAIN_BYTES)
            chain.update(_little_endian(node.key.numpy()))
            total += _node_digest(node, chain.digest())
            stack.append((node, chain.digest()))
    return total % (1 << 8 * DIGEST_BYTES)


def digest_of(parts: Iterable[bytes | PageIds]) -> int:
    """A digest of byte strings and page ids, each with its length, in this order."""
    whole = blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        data = part if isinstance(part, bytes) else _little_endian(part)
        whole.update(len(data).to_bytes(8, "little"))
        whole.update(data)
    return int.from_bytes(whole.digest(), "little")


def _node_digest(node: Node, prefix: bytes) -> int:
    plain: list[Any] = [getattr(node, name) for name in PLAIN]
    in_flight = (node.load is not None, node.save is not None)
    state = repr((plain, in_flight)).encode()
    return digest_of([prefix, state, node.device_pages, node.host_pages])


def _little_endian(values: PageIds) -> bytes:
    return values.astype("<i8", copy=False).tobytes()
