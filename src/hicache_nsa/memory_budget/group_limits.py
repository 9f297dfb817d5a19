"""The limits of control groups, version 1 and 2."""

from __future__ import annotations

from pathlib import Path

from hicache_nsa.memory_budget.groups import Group, groups_of
from hicache_nsa.memory_budget.limits import MemoryLimit
from hicache_nsa.memory_budget.mounts import below, read_text

# v1 says "no limit" by a number: the largest multiple of a page in an int64 (or more).
NO_LIMIT = 1 << 62


def memory_limits(root: Path, pid: str) -> list[MemoryLimit]:
    """Of the memory controller. Page cache that is not in use does not count as used."""
    found: list[MemoryLimit] = []
    for group in groups_of(root, pid, "memory"):
        found += _of_v1(root, group) if group.version == 1 else _of_v2(root, group)
    return found


def huge_page_limits(root: Path, pid: str, page_bytes: int) -> list[MemoryLimit]:
    """Of the hugetlb controller, for huge pages of ``page_bytes``: what is used and reserved."""
    size = f"hugetlb.{_short(page_bytes)}"
    found = []
    for group in groups_of(root, pid, "hugetlb"):
        limit, usage = (
            ("limit_in_bytes", "usage_in_bytes") if group.version == 1 else ("max", "current")
        )
        for kind in (size, f"{size}.rsvd"):
            used = number(root, f"{group.folder}/{kind}.{usage}") or 0
            found += _limit(root, f"{group.folder}/{kind}.{limit}", used)
    return found


def number(root: Path, path: str) -> int | None:
    """The whole number in a file; None for no such file and for ``max``."""
    text = read_text(below(root, path)).strip()
    return int(text) if text.isascii() and text.isdigit() else None


def _of_v2(root: Path, group: Group) -> list[MemoryLimit]:
    """memory.max ends in a kill, memory.high in a process that stands still."""
    used = number(root, f"{group.folder}/memory.current") or 0
    used -= min(used, _stat(root, group, "inactive_file"))
    return [
        limit
        for name in ("memory.max", "memory.high")
        for limit in _limit(root, f"{group.folder}/{name}", used)
    ]


def _of_v1(root: Path, group: Group) -> list[MemoryLimit]:
    if not group.own and number(root, f"{group.folder}/memory.use_hierarchy") == 0:
        return []  # it bounds the processes in it, not those below
    used = number(root, f"{group.folder}/memory.usage_in_bytes") or 0
    used -= min(used, _stat(root, group, "total_inactive_file"))
    found = _limit(root, f"{group.folder}/memory.limit_in_bytes", used)
    above = _stat(root, group, "hierarchical_memory_limit")
    if group.own and 0 < above < min([NO_LIMIT, *(limit.total for limit in found)]):
        # A group above may be out of sight. Of its usage only ours is known.
        source = f"{group.folder}/memory.stat (hierarchical_memory_limit)"
        found.append(MemoryLimit(source, above, max(0, above - used)))
    return found


def _limit(root: Path, path: str, used: int) -> list[MemoryLimit]:
    total = number(root, path)
    if total is None or total >= NO_LIMIT:
        return []
    return [MemoryLimit(path, total, max(0, total - used))]


def _stat(root: Path, group: Group, name: str) -> int:
    for line in read_text(below(root, f"{group.folder}/memory.stat")).splitlines():
        key, _, value = line.partition(" ")
        if key == name and value.strip().isdigit():
            return int(value)
    return 0


def _short(page_bytes: int) -> str:
    """As the files are named: ``64KB``, ``2MB``, ``1GB``."""
    for shift, unit in ((30, "GB"), (20, "MB"), (10, "KB")):
        if page_bytes >> shift:
            return f"{page_bytes >> shift}{unit}"
    return f"{page_bytes}B"
