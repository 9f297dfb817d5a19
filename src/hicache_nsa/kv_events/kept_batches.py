"""Batches that were published, kept for subscribers that missed some."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

BATCH_BYTES = 128
"""What a batch takes beside its payload: objects of Python."""


class KeptBatches:
    """The last batches by their sequence number, as many as fit into ``most_bytes`` of memory."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._batches: deque[tuple[int, bytes]] = deque()

    def add(self, number: int, payload: bytes) -> None:
        """Keep one more; the oldest ones go where room is missing."""
        self._batches.append((number, payload))
        self._bytes += len(payload) + BATCH_BYTES
        while self._bytes > self._most_bytes:
            _, gone = self._batches.popleft()
            self._bytes -= len(gone) + BATCH_BYTES

    def first(self, published: int) -> int:
        """The oldest number that is kept; ``published``, the next number, where none is."""
        return self._batches[0][0] if self._batches else published

    def since(self, number: int) -> Iterator[tuple[int, bytes]]:
        """Those from ``number`` on."""
        return ((each, payload) for each, payload in self._batches if each >= number)
