"""Where the doctor reads: the system's files below a root, and the system's calls."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hicache_nsa.memory_budget.mounts import below, read_text

SMI_SECONDS = 20.0


def run_command(arguments: Sequence[str]) -> str:
    """What a program prints.

    Raises:
        OSError: it is not there, or took longer than SMI_SECONDS. RuntimeError: it failed.
    """
    try:
        done = subprocess.run(
            list(arguments),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SMI_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired as error:
        raise OSError(f"{arguments[0]} did not answer within {SMI_SECONDS:g} s") from error
    if done.returncode != 0:
        text = (done.stdout + done.stderr).strip().splitlines()
        last = text[-1] if text else "it said nothing"
        raise RuntimeError(f"{arguments[0]} ended with {done.returncode}: {last}")
    return done.stdout


def locked_limit() -> int | None:
    """RLIMIT_MEMLOCK in bytes; None: unlimited."""
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return None if soft == resource.RLIM_INFINITY else soft


@dataclass(frozen=True)
class System:
    """root: of /proc, /sys and /dev. The rest stands for the system's calls."""

    root: Path = Path("/")
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    run: Callable[[Sequence[str]], str] = run_command
    space: Callable[[Path], os.statvfs_result] = os.statvfs
    locked_limit: Callable[[], int | None] = locked_limit

    def path(self, name: str) -> Path:
        """``name`` (absolute) below the root."""
        return below(self.root, name)

    def text(self, name: str) -> str:
        """The text of a file, stripped; empty where there is none."""
        return read_text(self.path(name)).strip()

    def names(self, folder: str, pattern: str = "*") -> list[str]:
        """Names in a folder, sorted; none where there is no such folder."""
        try:
            return sorted(path.name for path in self.path(folder).glob(pattern))
        except OSError:
            return []


def whole_number(text: str) -> int | None:
    """None for what is no number of 0 or more."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


def number_list(text: str) -> frozenset[int]:
    """``0-3,8`` as the numbers; parts of another form are passed over."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        begin, end = whole_number(first), whole_number(last if dash else first)
        if begin is not None and end is not None and end - begin < 1 << 20:
            found.update(range(begin, end + 1))
    return frozenset(found)
