"""How the memory of a host pool is made."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class HostMemoryOptions:
    """Keywords that ``HostPool`` and ``HiCache`` take.

    prefault: have the kernel back all of the memory at once; False: where it is written.

    Raises:
        TypeError, ValueError: a value that doesn't fit.
    """

    prefault: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.prefault, bool):
            raise TypeError(f"prefault must be True or False, got {type(self.prefault).__name__}")


MEMORY_OPTIONS = tuple(field.name for field in fields(HostMemoryOptions))


def split_memory_options(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Those of ``options`` that are about the host pool's memory, and the other ones."""
    memory = {name: value for name, value in options.items() if name in MEMORY_OPTIONS}
    others = {name: value for name, value in options.items() if name not in MEMORY_OPTIONS}
    return memory, others
