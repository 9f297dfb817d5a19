"""``MinQueue``: a priority queue that is fast for entries that come almost in order."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from hicache_nsa._core import untrack
from hicache_nsa.errors import require

Entry = TypeVar("Entry", bound="tuple[Any, ...]")


class MinQueue(Generic[Entry]):
    """Gives back the smallest entry first.

    A sorted run takes each entry that is not smaller than its last or smaller than its first, in
    O(1); a heap beside it takes all others, in O(log n). Times of use and of creation only grow,
    so most leaves of a tree go through the run, in either direction.

    The cyclic garbage collector sees neither entries nor queue, or it would walk all of them: an
    entry must not lead back to the queue.
    """

    __slots__ = ("_heap", "_run")

    def __init__(self) -> None:
        self._set(deque(), [])

    def _set(self, run: deque[Entry], heap: list[Entry]) -> None:
        self._run, self._heap = run, heap
        untrack(run)
        untrack(heap)

    def __len__(self) -> int:
        return len(self._run) + len(self._heap)

    def __iter__(self) -> Iterator[Entry]:
        """All entries, in no order."""
        yield from self._run
        yield from self._heap

    def push(self, entry: Entry) -> None:
        """Add an entry."""
        untrack(entry)
        run = self._run
        if not run or run[-1] <= entry:
            run.append(entry)
        elif entry < run[0]:
            run.appendleft(entry)
        else:
            heapq.heappush(self._heap, entry)

    def pop(self) -> Entry | None:
        """Take out the smallest entry; None when there is none."""
        run, heap = self._run, self._heap
        if run and not (heap and heap[0] < run[0]):
            return run.popleft()
        return heapq.heappop(heap) if heap else None

    def keep(self, wanted: Callable[[Entry], bool]) -> None:
        """Drop all entries but the wanted ones, in O(n)."""
        self._set(deque(filter(wanted, self._run)), list(filter(wanted, self._heap)))
        heapq.heapify(self._heap)

    def shrink(self, entries: int) -> int:
        """Drop up to ``entries`` entries, whichever; returns how many."""
        before = len(self)
        for _ in range(min(entries, len(self._run))):
            self._run.pop()
        left = entries - (before - len(self))
        if left > 0:
            del self._heap[-left:]
        return before - len(self)

    def clear(self) -> None:
        """Drop all entries."""
        self._run.clear()
        self._heap.clear()

    def check(self) -> None:
        """Raise ``InvariantError`` if the run or the heap is out of order."""
        run, heap = list(self._run), self._heap
        for i in range(1, len(run)):
            require(run[i - 1] <= run[i], f"queue: entry {i} of the run is before the one ahead")
        for i in range(1, len(heap)):
            require(heap[(i - 1) // 2] <= heap[i], f"queue: entry {i} of the heap is misplaced")
