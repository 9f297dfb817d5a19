"""How the memory of a host pool is made."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from hicache_nsa.formats.checks import count_of, one_of
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

    Raises:
        TypeError, ValueError: a value that doesn't fit.
    """

    prefault: bool = True
    huge_pages: str = "transparent"
    numa: str | int = "auto"
    prepare_first: int | str = 1 << 30
    prepare_step: int | str = 128 << 20
    prepare_threads: int = 0

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
                f"{SYSTEM_PAGE}, such as '128MiB'"
            )
        _ = self.first_bytes  # checked

    @property
    def first_bytes(self) -> int:
        """``prepare_first`` in bytes."""
        return min(parse_size(self.prepare_first, "prepare_first"), 1 << 62)

    @property
    def step_bytes(self) -> int:
        """``prepare_step`` in bytes."""
        return min(parse_size(self.prepare_step, "prepare_step"), 1 << 62)


MEMORY_OPTIONS = tuple(field.name for field in fields(HostMemoryOptions))


def split_memory_options(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Those of ``options`` that are about the host pool's memory, and the other ones."""
    memory = {name: value for name, value in options.items() if name in MEMORY_OPTIONS}
    others = {name: value for name, value in options.items() if name not in MEMORY_OPTIONS}
    return memory, others
