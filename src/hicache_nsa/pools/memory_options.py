"""How the memory of a host pool is made."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from typing import Any

from hicache_nsa.formats.checks import count_of, one_of
from hicache_nsa.memory_budget import MOST_RANKS
from hicache_nsa.pools.host_file import file_path, require_text
from hicache_nsa.sizes import parse_size

HUGE_PAGES = ("transparent", "explicit", "off")
MOST_NODE = 1023
MOST_THREADS = 1024
SYSTEM_PAGE = 4096


@dataclass(frozen=True)
class HostMemoryOptions:
    """Keywords that ``HostPool`` and ``HiCache`` take.

    prefault: have the kernel back the memory ahead of its use; False: where it is written.
    huge_pages: ``transparent``, ``explicit`` (those that the system has set aside; where they are
        too few, transparent ones and a warning) or ``off``.
    numa: ``auto`` (the node of the engine's GPU, on a machine with several), ``off``, or a node.
    prepare_first: bytes ("1GiB") that are ready when the constructor returns. The rest follows in
        the background, ``prepare_step`` at a time (a multiple of 4096).
    prepare_threads: threads that touch memory, 0: one a core, of four and more all but one.
    memory_limit: bytes, or "64GiB", that the pools of this host's ranks may take together, instead
        of what the system says (docs/memory.md).
    memory_reserve: bytes, or "2GiB", to leave free. None: a twentieth of each limit, 1 to 16 GiB,
        at most an eighth; of a ``memory_limit`` nothing.
    local_ranks: processes of this host that divide its memory. None: ``LOCAL_WORLD_SIZE``, or 1.
    host_file: a path on a memory file system (in /dev/shm, or hugetlbfs). The pool is kept there,
        with a page table, and the next cache that is given the path finds what was saved.
    weights: what the pages are computed with, a model's name and revision. A file of other weights
        is set aside; without it only the format tells them apart.

    Raises:
        TypeError, ValueError: a value that doesn't fit.
    """

    prefault: bool = True
    huge_pages: str = "transparent"
    numa: str | int = "auto"
    prepare_first: int | str = 1 << 30
    prepare_step: int | str = 64 << 20
    prepare_threads: int = 0
    memory_limit: int | str | None = None
    memory_reserve: int | str | None = None
    local_ranks: int | None = None
    host_file: str | os.PathLike[str] | None = None
    weights: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.prefault, bool):
            raise TypeError(f"prefault must be True or False, got {type(self.prefault).__name__}")
        one_of(self.huge_pages, "huge_pages", HUGE_PAGES)
        if isinstance(self.numa, str):
            one_of(self.numa, "numa", ("auto", "off"))
        else:
            count_of(self.numa, "numa", most=MOST_NODE)
        count_of(self.prepare_threads, "prepare_threads", most=MOST_THREADS)
        step = self.step_bytes
        if step == 0 or step % SYSTEM_PAGE:
            raise ValueError(
                f"prepare_step={self.prepare_step!r} is {step} bytes; give a multiple of "
                f"{SYSTEM_PAGE}, such as '64MiB'"
            )
        _ = self.first_bytes  # checked
        if self.memory_limit is not None and self.limit_bytes == 0:
            raise ValueError(
                f"memory_limit={self.memory_limit!r} leaves no memory; give bytes or a size such "
                f'as "64GiB", or None for what the system says'
            )
        if self.memory_reserve is not None:
            parse_size(self.memory_reserve, "memory_reserve")
        if self.local_ranks is not None:
            count_of(self.local_ranks, "local_ranks", least=1, most=MOST_RANKS)
        if not isinstance(self.weights, str):
            raise TypeError(f"weights must be a str, got {type(self.weights).__name__}")
        require_text(self.weights, "weights")
        if self.weights and self.host_file is None:
            raise ValueError(f"weights={self.weights!r} is kept in a host_file, and there is none")
        if self.host_file is not None:
            object.__setattr__(self, "host_file", file_path(self.host_file))

    @property
    def path(self) -> str | None:
        """``host_file`` as an absolute path."""
        return None if self.host_file is None else str(self.host_file)

    @property
    def first_bytes(self) -> int:
        """``prepare_first`` in bytes."""
        return min(parse_size(self.prepare_first, "prepare_first"), 1 << 62)

    @property
    def step_bytes(self) -> int:
        """``prepare_step`` in bytes."""
        return min(parse_size(self.prepare_step, "prepare_step"), 1 << 62)

    @property
    def limit_bytes(self) -> int | None:
        """``memory_limit`` in bytes."""
        return _bytes(self.memory_limit, "memory_limit")

    @property
    def reserve_bytes(self) -> int | None:
        """``memory_reserve`` in bytes."""
        return _bytes(self.memory_reserve, "memory_reserve")


def _bytes(size: int | str | None, name: str) -> int | None:
    return None if size is None else parse_size(size, name)


def check_memory_options(options: dict[str, Any]) -> dict[str, Any]:
    """``options`` as they are; see ``HostMemoryOptions`` for the errors."""
    HostMemoryOptions(**options)
    return options


MEMORY_OPTIONS = tuple(field.name for field in fields(HostMemoryOptions))
UNKEPT_OPTIONS = tuple(name for name in MEMORY_OPTIONS if name not in ("host_file", "weights"))
"""Those of a pool whose pages no ``HiCache`` knows, so that no file can say what they hold."""


def split_memory_options(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Those of ``options`` that are about the host pool's memory, and the other ones."""
    memory = {name: value for name, value in options.items() if name in MEMORY_OPTIONS}
    others = {name: value for name, value in options.items() if name not in MEMORY_OPTIONS}
    return memory, others
