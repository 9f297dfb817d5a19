"""What callers hold between calls: matches and lock handles, and the epoch that dates them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hicache_nsa.errors import StaleHandleError
from hicache_nsa.tokens import PageIds
from hicache_nsa.tree import Node

if TYPE_CHECKING:
    from hicache_nsa.cache.copies import Load
    from hicache_nsa.cache.deferred import DeferredInsert


class Epoch:
    """The time between two flushes of one cache. Compared by identity."""

    __slots__ = ("cache_id", "number")

    def __init__(self, cache_id: object, number: int = 0) -> None:
        self.cache_id = cache_id
        self.number = number

    def next(self) -> Epoch:
        """The epoch after a flush."""
        return Epoch(self.cache_id, self.number + 1)

    def is_before(self, other: Epoch) -> bool:
        """Whether the same cache was flushed between this epoch and ``other``."""
        return self.cache_id is other.cache_id and self is not other

    def require_current(self, other: Epoch, what: str) -> None:
        """``StaleHandleError`` if ``other`` is from before a flush, ``ValueError`` if foreign."""
        if other is self:
            return
        if other.cache_id is not self.cache_id:
            raise ValueError(f"this {what} belongs to another cache")
        raise StaleHandleError(
            f"this {what} is from epoch {other.number}, the cache was flushed since "
            f"(epoch {self.number}): match again"
        )


@dataclass(frozen=True, slots=True, eq=False)
class PrefixMatch:
    """The longest cached prefix of some tokens, in whole pages. A snapshot: nothing is locked.

    device_tokens, host_tokens, storage_tokens: landed on the device; then further on host without
        a gap; then further known in storage. They exclude each other.
    device_pages, host_pages: int64 page ids of the two parts, fresh arrays.
    load_tokens: device tokens that ``load_back`` would take now; less than ``host_tokens`` where
        a load in flight is bringing some of them already.
    """

    device_tokens: int
    host_tokens: int
    storage_tokens: int
    device_pages: PageIds
    host_pages: PageIds
    load_tokens: int
    _node: Node | None = field(repr=False)
    _epoch: Epoch = field(repr=False)

    @property
    def tokens(self) -> int:
        """Cached tokens in device and host tier together."""
        return self.device_tokens + self.host_tokens


class LockHandle:
    """A lock on a prefix and everything above it. ``HiCache.unlock`` ends it, once.

    device_tokens, host_tokens: what was still cached when it was taken, and is protected.
    """

    __slots__ = (
        "_deferred",
        "_epoch",
        "_loads",
        "_node",
        "_released",
        "device_tokens",
        "host_tokens",
    )

    def __init__(
        self, node: Node | None, epoch: Epoch, device_tokens: int, host_tokens: int
    ) -> None:
        self.device_tokens = device_tokens
        self.host_tokens = host_tokens
        self._node = node
        self._epoch = epoch
        self._released = False
        self._deferred: list[DeferredInsert] = []
        self._loads: list[Load] = []

    def __repr__(self) -> str:
        state = "released" if self._released else "held"
        tokens = f"device_tokens={self.device_tokens}, host_tokens={self.host_tokens}"
        return f"LockHandle({tokens}, {state})"
