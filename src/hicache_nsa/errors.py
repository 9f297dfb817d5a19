"""The errors of hicache-nsa. Bad arguments raise ``ValueError`` or ``TypeError`` instead."""

from __future__ import annotations

from typing import Protocol


class HiCacheError(RuntimeError):
    """Base class: something the cache could not do, with the numbers and the next step."""


class OutOfPages(HiCacheError):
    """A pool has too few pages left, even after eviction. Nothing was changed."""


class TransferError(HiCacheError):
    """A copy between two tiers failed. The pages involved count as a miss, never as a hit."""


class StorageError(HiCacheError):
    """The storage tier failed to read or write a page."""


class InvariantError(HiCacheError):
    """``check()`` found a broken equation; the message holds both of its sides."""


class StaleHandleError(HiCacheError):
    """A match, handle, load or page from before a flush or a change of weights was used."""


def require(condition: bool, message: str, *subjects: object) -> None:
    """Raise ``InvariantError(message)`` unless ``condition`` holds.

    ``{}`` in the message stands for the subjects, which are written out only then.
    """
    if not condition:
        raise InvariantError(message.format(*subjects) if subjects else message)


def require_equal(name: str, left: object, right: object, *subjects: object) -> None:
    """Raise ``InvariantError`` that shows both sides unless ``left == right``. See ``require``."""
    if left != right:
        name = name.format(*subjects) if subjects else name
        raise InvariantError(f"{name}: {left!r} != {right!r}")


class _Checkable(Protocol):
    def check(self) -> None: ...


def native_check(part: _Checkable) -> None:
    """Run ``check()`` of a C++ object; what it finds is raised as ``InvariantError``."""
    try:
        part.check()
    except RuntimeError as error:
        raise InvariantError(str(error)) from error
