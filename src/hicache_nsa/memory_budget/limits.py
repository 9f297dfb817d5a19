"""What the system says about memory: numbers, each with the file that has it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MemoryLimit:
    """One limit, in bytes.

    source: the file it stands in. total: what may be used in all. available: what of it is not in
    use, or can be taken back at once (page cache).
    """

    source: str
    total: int
    available: int


@dataclass(frozen=True)
class MemoryLimits:
    """Every limit that bounds a pool; the tightest one counts.

    memory: of the machine and of control groups; ``memory_limit`` takes their place, and a reserve
        of each is kept. space: of a pool of huge pages or a file system, which always hold.
    """

    memory: tuple[MemoryLimit, ...] = ()
    space: tuple[MemoryLimit, ...] = ()
