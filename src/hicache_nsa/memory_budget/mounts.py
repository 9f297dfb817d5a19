"""What is mounted where, of ``/proc/PID/mountinfo``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple


class Mount(NamedTuple):
    """root: which folder of the file system is mounted. point: where. kind: such as ``tmpfs``."""

    root: str
    point: str
    kind: str
    options: tuple[str, ...]


def parse_mounts(text: str) -> list[Mount]:
    """The mounts in the order of the file; lines of another form are passed over."""
    mounts = []
    for line in text.splitlines():
        left, separator, right = line.partition(" - ")
        place, source = left.split(" "), right.split(" ")
        if separator and len(place) >= 5 and len(source) >= 3:
            options = tuple(source[-1].split(","))
            mounts.append(Mount(_plain(place[3]), _plain(place[4]), source[0], options))
    return mounts


def _plain(text: str) -> str:
    """Without the escapes of spaces, tabs, line ends and backslashes."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def mount_of(mounts: list[Mount], path: str) -> Mount | None:
    """The mount that ``path`` (absolute) lies in: the longest point above it, the last of those."""
    best: Mount | None = None
    for mount in mounts:
        point = mount.point.rstrip("/")
        inside = path == mount.point or path.startswith(point + "/")
        if inside and (best is None or len(point) >= len(best.point.rstrip("/"))):
            best = mount
    return best


def read_text(path: Path) -> str:
    """The text of a system file; empty where there is none or it may not be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def below(root: Path, path: str) -> Path:
    """``path`` (absolute) in the tree at ``root``."""
    return root / path.lstrip("/")
