"""The file that a host pool can be kept in, and what a process finds there of an earlier one."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import Any, TypeAlias

from hicache_nsa import _core
from hicache_nsa.errors import HiCacheError
from hicache_nsa.tokens import PageIds

RestoredNode: TypeAlias = tuple[int, int, bytes, int, bytes, int, int, int]
"""Index of the parent (-1: below a root) and of the namespace; packed tokens, and how many; packed
page ids; priority; when created and when used last, as sequence numbers of saves."""


@dataclass(frozen=True)
class RestoredPages:
    """What an earlier process left: nodes, parents first, and all of their pages.

    namespaces: as ``tokens.short_namespace`` makes them. damaged: pages that are not served, since
    their entry in the page table, or one before it, does not prove what they hold.
    """

    namespaces: list[bytes]
    nodes: list[RestoredNode]
    pages: PageIds
    damaged: int


def file_path(host_file: Any) -> str:
    """``host_file`` as an absolute path."""
    path = os.fspath(host_file) if isinstance(host_file, os.PathLike) else host_file
    if not isinstance(path, str):
        raise TypeError(f"host_file must be a path, got {type(host_file).__name__}")
    if not path or "\0" in path or path.endswith("/"):
        raise ValueError(f"host_file={path!r} must be the path of a file, as in /dev/shm")
    require_text(path, "host_file")
    return str(Path(path).absolute())


def require_text(value: str, name: str) -> None:
    """``ValueError`` if there is no UTF-8 of ``value``."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name}={value!r} is not UTF-8: give one in valid text") from None


def block_bytes(path: str) -> int:
    """Bytes of a block where the file is; ``ValueError`` if that is no memory file system."""
    return _core.host_file_block(path)


def open_host_file(
    path: str, layout: _core.HostLayout, fingerprint: str, touched: bool
) -> tuple[_core.HostFile, RestoredPages]:
    """Open the file or make one; warns of what was set aside and what is damaged.

    touched: the pool's bytes are touched before they are used.

    Raises:
        HiCacheError: owned by another cache, no permission, no regular file, no room.
    """
    try:
        file = _core.HostFile(path, layout, fingerprint, block_bytes(path), touched)
    except RuntimeError as error:
        raise HiCacheError(str(error)) from error
    with close_if_it_fails(file, path):
        for warning in file.warnings:
            warnings.warn(warning, RuntimeWarning, stacklevel=2)
        restored = RestoredPages(*file.restore())
        if restored.damaged:
            warnings.warn(
                f"host file {path}: the entries of {restored.damaged} pages are damaged; these "
                f"pages are not served and count as free",
                RuntimeWarning,
                stacklevel=2,
            )
    return file, restored


@contextmanager
def close_if_it_fails(file: _core.HostFile, path: str) -> Iterator[None]:
    """After an error inside nobody owns ``file``, also while the error keeps its frames alive; one
    that was made just now is removed.
    """
    try:
        yield
    except BaseException:
        if file.created:
            Path(path).unlink(missing_ok=True)
        file.close()
        raise


def in_the_way(path: str) -> str:
    """What the files at ``path`` hold that are none for a new pool, empty if there are none."""
    place = Path(path)
    aside = sorted(place.parent.glob(f"{escape(place.name)}.set-aside-*"))
    held = {each: each.stat().st_blocks * 512 for each in (place, *aside) if each.is_file()}
    return "".join(f"; {each} holds {nbytes} bytes: delete it" for each, nbytes in held.items())
