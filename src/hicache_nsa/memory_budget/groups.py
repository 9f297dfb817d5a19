"""The control groups of a process, own group first, then every one above it that can be seen."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from hicache_nsa.memory_budget.mounts import Mount, below, parse_mounts, read_text

# Where they are on most systems; looked at where mountinfo cannot be read.
_USUAL = (
    Mount("/", "/sys/fs/cgroup", "cgroup2", ()),
    Mount("/", "/sys/fs/cgroup/memory", "cgroup", ("memory",)),
    Mount("/", "/sys/fs/cgroup/hugetlb", "cgroup", ("hugetlb",)),
)


class Group(NamedTuple):
    """folder: its path in the system. version: 1 or 2. own: the process is in it, not below it."""

    folder: str
    version: int
    own: bool


def groups_of(root: Path, pid: str, controller: str) -> list[Group]:
    """The groups that bound ``controller`` for the process, without repetitions."""
    paths = _paths(read_text(root / "proc" / pid / "cgroup"), controller)
    mounts = parse_mounts(read_text(root / "proc" / pid / "mountinfo")) or list(_USUAL)
    found: dict[str, Group] = {}
    for version, path in paths.items():
        ours = [mount for mount in mounts if _has(mount, version, controller)]
        chains = [_chain(mount, path) for mount in ours]
        if not any(chains) and ".." not in path.split("/"):
            # A container that sees its own group only, under the name that the host has for it.
            chains = [_inside(mount, path, root) for mount in ours]
        for folder, own in (each for chain in chains for each in chain):
            found.setdefault(folder, Group(folder, version, own))
    return list(found.values())


def _paths(text: str, controller: str) -> dict[int, str]:
    """The process's group in the v1 hierarchy that has the controller, and in v2's."""
    paths = {}
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        if colon and path.startswith("/"):
            if controller in controllers.split(","):
                paths[1] = path
            elif number == "0" and controllers == "":
                paths[2] = path
    return paths


def _has(mount: Mount, version: int, controller: str) -> bool:
    if version == 2:
        return mount.kind == "cgroup2"
    return mount.kind == "cgroup" and controller in mount.options


def _chain(mount: Mount, path: str) -> list[tuple[str, bool]]:
    """From the group at ``path`` up to the mount's root; empty if it isn't below that."""
    top, own = _parts(mount.root), _parts(path)
    if own[: len(top)] != top or ".." in own[len(top) :]:
        return []
    return _climb(mount.point, own[len(top) :])


def _inside(mount: Mount, path: str, root: Path) -> list[tuple[str, bool]]:
    """The same, where the mount's root says nothing: the folder of that name, or the mount."""
    parts = _parts(path)
    there = below(root, "/".join([mount.point, *parts])).is_dir()
    return _climb(mount.point, parts if there else [])


def _climb(point: str, parts: list[str]) -> list[tuple[str, bool]]:
    top = point.rstrip("/")
    return [
        ("/".join([top, *parts[:depth]]), depth == len(parts))
        for depth in range(len(parts), -1, -1)
    ]


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]
