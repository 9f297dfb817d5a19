"""A tree of system files, as small as what is read of them."""

from __future__ import annotations

from pathlib import Path

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
V1_NO_LIMIT = 9223372036854771712


class FakeSystem:
    """Folders below ``root`` that look like /proc and /sys."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._mounts: list[str] = []
        self._groups: list[str] = []
        self.write("/proc/self/mountinfo", "")
        self.write("/proc/self/cgroup", "")

    def write(self, path: str, text: object) -> None:
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}", encoding="utf-8")

    def meminfo(self, total: int | None, available: int | None) -> None:
        lines = [
            f"{name}:   {size // KIB} kB"
            for name, size in (("MemTotal", total), ("MemFree", 0), ("MemAvailable", available))
            if size is not None
        ]
        self.write("/proc/meminfo", "\n".join([*lines, "HugePages_Total:       0", ""]))

    def mount(self, point: str, kind: str, root: str = "/", options: str = "rw") -> None:
        number = len(self._mounts) + 30
        self._mounts.append(f"{number} 1 0:{number} {root} {point} rw - {kind} {kind} {options}")
        self.write("/proc/self/mountinfo", "\n".join([*self._mounts, ""]))

    def member(self, line: str) -> None:
        """A line of /proc/self/cgroup."""
        self._groups.append(line)
        self.write("/proc/self/cgroup", "\n".join([*self._groups, ""]))

    def group(
        self,
        folder: str,
        limit: object = "max",
        used: int = 0,
        inactive_file: int = 0,
        high: object = "max",
    ) -> None:
        """Of version 2."""
        self.write(f"{folder}/memory.max", f"{limit}\n")
        self.write(f"{folder}/memory.high", f"{high}\n")
        self.write(f"{folder}/memory.current", f"{used}\n")
        self.write(f"{folder}/memory.stat", f"anon 7\ninactive_file {inactive_file}\nslab 1\n")

    def old_group(
        self,
        folder: str,
        limit: int = V1_NO_LIMIT,
        used: int = 0,
        inactive_file: int = 0,
        above: int = V1_NO_LIMIT,
        hierarchy: int = 1,
    ) -> None:
        """Of version 1."""
        self.write(f"{folder}/memory.limit_in_bytes", f"{limit}\n")
        self.write(f"{folder}/memory.usage_in_bytes", f"{used}\n")
        self.write(f"{folder}/memory.use_hierarchy", f"{hierarchy}\n")
        self.write(
            f"{folder}/memory.stat",
            f"inactive_file 1\nhierarchical_memory_limit {above}\n"
            f"total_inactive_file {inactive_file}\n",
        )

    def huge_pages(self, page_bytes: int, total: int, free: int, reserved: int = 0) -> None:
        folder = f"/sys/kernel/mm/hugepages/hugepages-{page_bytes // KIB}kB"
        self.write(f"{folder}/nr_hugepages", total)
        self.write(f"{folder}/free_hugepages", free)
        self.write(f"{folder}/resv_hugepages", reserved)
