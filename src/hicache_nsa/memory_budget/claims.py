"""What this process's pools hold, and what other local ranks found to divide.

Ranks make their pools one after the other, and each one's pool is in use when the next looks at the
memory. So that all come to the same share, a rank publishes what it found: in the name of an empty
memory file, which the processes of the same parent and user read in its list of descriptors, and
which is gone when the process is.
"""

from __future__ import annotations

import os
import threading
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from weakref import WeakSet

from hicache_nsa.memory_budget.budget import Budget
from hicache_nsa.memory_budget.limits import MemoryLimits

_NAME = "hicache-nsa"
_lock = threading.Lock()


def _new_lock() -> None:
    global _lock
    _lock = threading.Lock()  # another thread of the parent may have held the old one


os.register_at_fork(after_in_child=_new_lock)


class Claim:
    """Bytes of one pool.

    key: of the limits that bound it; pools under other limits take nothing from each other.
    """

    def __init__(self, nbytes: int, key: int, local_ranks: int, look: int) -> None:
        self._file = -1
        self.nbytes = nbytes
        self.key = key
        self.pid = os.getpid()
        self._left: int | Callable[[], int] = nbytes
        if local_ranks > 1:
            with suppress(OSError):  # other ranks then see less memory, never too much
                name = f"{_NAME}:{self.pid}:{local_ranks}:{key}:{look}"
                self._file = os.memfd_create(name)
        _claims.add(self)

    def settle(self, left: int | Callable[[], int]) -> None:
        """So many bytes of the pool are still to be taken; the system counts the other ones.

        A function is asked whenever another pool is made.
        """
        self._left = left

    @property
    def pending(self) -> int:
        """Bytes that are mapped and not in use yet."""
        left = self._left
        return min(left if isinstance(left, int) else left(), self.nbytes)

    def close(self) -> None:
        """The memory is given back. Idempotent."""
        _claims.discard(self)
        self._unpublish()

    def _unpublish(self) -> None:
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    def __del__(self) -> None:
        self._unpublish()


_claims: WeakSet[Claim] = WeakSet()


def claim_room(
    decide: Callable[[], tuple[Budget, int]], nbytes: int
) -> tuple[Budget, Claim | None]:
    """The budget, and a claim on ``nbytes`` of it if they fit; one thread at a time.

    decide: reads limits and says what they allow, and the key of those limits.
    """
    with _lock:
        room, key = decide()
        if nbytes > room.allowed:
            return room, None
        return room, Claim(nbytes, key, room.local_ranks, room.look)


def key_of(limits: MemoryLimits) -> int:
    """The same number for the same limits, whatever their values."""
    return zlib.crc32("\n".join(each.source for each in (*limits.memory, *limits.space)).encode())


def own_bytes(key: int) -> int:
    """Bytes of this process's pools under the limits with that key."""
    return sum(claim.nbytes for claim in _own(key))


def pending_bytes(key: int) -> int:
    """Bytes of them that are mapped and not in use yet."""
    return sum(claim.pending for claim in _own(key))


def _own(key: int) -> list[Claim]:
    pid = os.getpid()
    return [claim for claim in list(_claims) if claim.key == key and claim.pid == pid]


def first_look(key: int, local_ranks: int, processes: Path = Path("/proc")) -> int | None:
    """What the first of the local ranks found to divide; None if none has a pool yet."""
    if local_ranks == 1:
        return None
    parent = os.getppid()
    start = f"/memfd:{_NAME}:"
    looks = []
    for process in processes.iterdir():
        if not process.name.isdigit() or _parent(process) != parent:
            continue
        for name in _open_files(process):
            if name.startswith(start):
                text = name.removeprefix(start).partition(" ")[0]
                *words, look = text.split(":")
                if words == [process.name, str(local_ranks), str(key)] and look.isdigit():
                    looks.append(int(look))
    return min(looks, default=None)


def _parent(process: Path) -> int | None:
    try:
        text = (process / "stat").read_text(encoding="utf-8", errors="replace")
        return int(text.rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return None  # it ended


def _open_files(process: Path) -> list[str]:
    """Names of what the process has open; none where we may not look."""
    names = []
    with suppress(OSError):
        for number in (process / "fd").iterdir():
            with suppress(OSError):
                names.append(str(number.readlink()))
    return names
