"""The linkers of this process, for whoever has to tell them that the weights have changed."""

from __future__ import annotations

import contextlib
import weakref
from typing import Protocol


class LiveLinker(Protocol):
    """What the hooks on weight updates need of a linker."""

    def invalidate(self) -> None:
        """Drop every host page; see ``LinkerCore.invalidate``."""

    def quiesce(self) -> None:
        """Wait for every copy in flight."""


_linkers: weakref.WeakSet[LiveLinker] = weakref.WeakSet()


def add(linker: LiveLinker) -> None:
    """Call ``linker`` from now on, until it is gone or removed."""
    _linkers.add(linker)


def remove(linker: LiveLinker) -> None:
    """Forget ``linker``."""
    _linkers.discard(linker)


def linkers() -> list[LiveLinker]:
    """All of this process."""
    return list(_linkers)


def invalidate_all() -> int:
    """The model's weights have changed: drop the host pages of every linker of this process.

    Returns how many linkers there were; each is told, also if another one raises. It has to be
    called on every rank, and the device flushed: ``LinkerCore.invalidate`` says what happens until
    then.
    """
    found = linkers()
    with contextlib.ExitStack() as every:
        for linker in found:
            every.callback(linker.invalidate)
    return len(found)
