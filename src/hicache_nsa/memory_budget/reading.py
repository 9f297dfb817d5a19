"""``read_limits``: every limit that bounds a pool, read from the system's files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from hicache_nsa.memory_budget.group_limits import huge_page_limits, memory_limits, number
from hicache_nsa.memory_budget.limits import MemoryLimit, MemoryLimits
from hicache_nsa.memory_budget.mounts import below, mount_of, parse_mounts, read_text

Space = Callable[[Path], os.statvfs_result]


def read_limits(
    root: Path = Path("/"),
    pid: str = "self",
    *,
    huge_page_bytes: int | None = None,
    file: Path | None = None,
    space: Space = os.statvfs,
) -> MemoryLimits:
    """The limits of a process, read now.

    root: where the system's files are. huge_page_bytes: size of the explicit huge pages that are
    to be used; they come out of a pool of their own, not out of the memory that other limits are
    about. file: where the bytes are to lie (its folder has to exist): in a tmpfs they take memory
    and room in it, in a hugetlbfs huge pages. space: asks a file system for its room.
    """
    if file is not None:
        place = _system_path(root, file)
        mount = mount_of(parse_mounts(read_text(root / "proc" / pid / "mountinfo")), place)
        room = space(below(root, os.path.dirname(place)))  # noqa: PTH120
        kind = mount.kind if mount is not None else "unknown file system"
        point = mount.point if mount is not None else place
        free = _room(f"free space of {point} ({kind})", room)
        if kind == "hugetlbfs":
            return _huge_pages(root, pid, room.f_bsize, free)
        return MemoryLimits((*_machine(root), *memory_limits(root, pid)), free)
    if huge_page_bytes is not None:
        return _huge_pages(root, pid, huge_page_bytes, ())
    return MemoryLimits((*_machine(root), *memory_limits(root, pid)))


def huge_page_size(root: Path = Path("/")) -> int | None:
    """Bytes of an explicit huge page, as mappings get them by default; None: there are none."""
    return _memory_info(root).get("Hugepagesize")


def _memory_info(root: Path) -> dict[str, int]:
    """``/proc/meminfo``: bytes, or counts."""
    info = {}
    for line in read_text(root / "proc" / "meminfo").splitlines():
        name, _, value = line.partition(":")
        words = value.split()
        if words and words[0].isdigit():
            info[name] = int(words[0]) << (10 if words[1:] == ["kB"] else 0)
    return info


def _machine(root: Path) -> list[MemoryLimit]:
    """Physical memory, and what of it is available."""
    info = _memory_info(root)
    found = []
    if "MemAvailable" in info:
        available = info["MemAvailable"]
        total = info.get("MemTotal", available)
        found.append(MemoryLimit("/proc/meminfo (MemAvailable)", total, available))
    if "MemTotal" in info:
        found.append(MemoryLimit("/proc/meminfo (MemTotal)", info["MemTotal"], info["MemTotal"]))
    return found


def _huge_pages(
    root: Path, pid: str, page_bytes: int, more: tuple[MemoryLimit, ...]
) -> MemoryLimits:
    """The free ones of a pool that nobody has reserved; what the control groups leave of it."""
    folder = f"/sys/kernel/mm/hugepages/hugepages-{page_bytes >> 10}kB"
    free = number(root, f"{folder}/free_hugepages") or 0
    free -= min(free, number(root, f"{folder}/resv_hugepages") or 0)
    total = number(root, f"{folder}/nr_hugepages") or 0
    pool = MemoryLimit(f"{folder}/free_hugepages", total * page_bytes, free * page_bytes)
    return MemoryLimits((), (pool, *huge_page_limits(root, pid, page_bytes), *more))


def _room(source: str, room: os.statvfs_result) -> tuple[MemoryLimit, ...]:
    if room.f_blocks == 0:  # a mount without a size of its own
        return ()
    return (MemoryLimit(source, room.f_blocks * room.f_frsize, room.f_bavail * room.f_frsize),)


def _system_path(root: Path, file: Path) -> str:
    """Where ``file`` is in the system, behind symbolic links of its folder."""
    top = root.resolve()
    folder = below(top, str(file.parent)).resolve()
    inside = folder if folder.is_relative_to(top) else top
    return f"/{inside.relative_to(top)}/{file.name}".replace("/./", "/")
