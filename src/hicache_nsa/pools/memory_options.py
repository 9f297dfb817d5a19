"""How the memory of a host pool is made."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from typing import Any

from hicache_nsa.pools.host_file import file_path


@dataclass(frozen=True)
class HostMemoryOptions:
    """Keywords that ``HostPool`` and ``HiCache`` take.

    prefault: have the kernel back all of the memory at once; False: where it is written.
    host_file: a path on a memory file system (in /dev/shm, or hugetlbfs). The pool is kept there,
        with a page table, and the next cache that is given the path finds what was saved.
    weights: what the pages are computed with, a model's name and revision. A file of other weights
        is set aside; without it only the format tells them apart.

    Raises:
        TypeError, ValueError: a value that doesn't fit.
    """

    prefault: bool = True
    host_file: str | os.PathLike[str] | None = None
    weights: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.prefault, bool):
            raise TypeError(f"prefault must be True or False, got {type(self.prefault).__name__}")
        if not isinstance(self.weights, str):
            raise TypeError(f"weights must be a str, got {type(self.weights).__name__}")
        if self.weights and self.host_file is None:
            raise ValueError(f"weights={self.weights!r} is kept in a host_file, and there is none")
        if self.host_file is not None:
            object.__setattr__(self, "host_file", file_path(self.host_file))

    @property
    def path(self) -> str | None:
        """``host_file`` as an absolute path."""
        return None if self.host_file is None else str(self.host_file)


MEMORY_OPTIONS = tuple(field.name for field in fields(HostMemoryOptions))


def split_memory_options(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Those of ``options`` that are about the host pool's memory, and the other ones."""
    memory = {name: value for name, value in options.items() if name in MEMORY_OPTIONS}
    others = {name: value for name, value in options.items() if name not in MEMORY_OPTIONS}
    return memory, others
