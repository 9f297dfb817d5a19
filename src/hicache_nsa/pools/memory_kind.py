"""What the memory of a host pool really is, beside what was asked for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

SMAPS = Path("/proc/self/smaps")
_HUGE = re.compile(r"(AnonHugePages|ShmemPmdMapped|FilePmdMapped|\w+_Hugetlb):\s+([0-9]+) kB")
_RESIDENT = re.compile(r"(Rss):\s+([0-9]+) kB")
_RANGE = re.compile(r"([0-9a-f]+)-([0-9a-f]+) ")


@dataclass(frozen=True)
class MemoryKind:
    """Bytes unless said otherwise.

    nbytes: of the whole pool. ready_bytes: of it, from its beginning on.
    pinned_bytes: registered with the engine's GPU. pageable_bytes: ready and not registered.
    huge_pages: ``off``, ``transparent`` (asked for: ``HostPool.huge_page_bytes()`` counts) or
        ``explicit``. numa_node: where pages are taken from if it has room, None: anywhere.
    """

    nbytes: int
    ready_bytes: int
    pinned_bytes: int
    pageable_bytes: int
    huge_pages: str
    numa_node: int | None


def huge_page_bytes(address: int, nbytes: int) -> int:
    """Bytes of huge pages in the mappings that [address, address + nbytes) touches.

    0 where the system does not say. Walks the page tables of every mapping of the process: some
    milliseconds a GiB of small pages.
    """
    return _counted(_HUGE, address, nbytes)


def untouched_bytes(address: int, nbytes: int) -> int:
    """Bytes of [address, address + nbytes) that no page is behind yet; as ``huge_page_bytes``."""
    return nbytes - _counted(_RESIDENT, address, nbytes)


def _counted(kind: re.Pattern[str], address: int, nbytes: int) -> int:
    total, inside = 0, False
    try:
        with SMAPS.open(encoding="ascii", errors="replace") as lines:
            for line in lines:
                if found := _RANGE.match(line):
                    inside = int(found[1], 16) < address + nbytes and int(found[2], 16) > address
                elif inside and (counted := kind.match(line)):
                    total += int(counted[2]) << 10
    except OSError:
        return 0
    return min(total, nbytes)
