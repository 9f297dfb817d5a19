"""Hooks for tests: keep copies in flight, make one fail. They act on the real transfer engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hicache_nsa.transfer import TransferEngine

if TYPE_CHECKING:
    from hicache_nsa.cache import HiCache


@contextmanager
def hold(cache: HiCache | TransferEngine, direction: str) -> Iterator[None]:
    """Copies submitted in ``direction`` (``"h2d"`` or ``"d2h"``) stay in flight until the end.

    What waits for copies (``drain``, ``reset``, ``clear``) waits for the end too:
    don't call it from the same thread inside.
    """
    engine = _engine(cache)
    engine.hold(direction)
    try:
        yield
    finally:
        engine.release(direction)


def fail_next(cache: HiCache | TransferEngine, direction: str, after_pages: int = 0) -> None:
    """The next copy submitted in ``direction`` fails after ``after_pages`` whole pages."""
    _engine(cache).fail_next(direction, after_pages)


def _engine(cache: HiCache | TransferEngine) -> TransferEngine:
    if isinstance(cache, TransferEngine):
        return cache
    if not isinstance(getattr(cache, "engine", None), TransferEngine):
        raise TypeError(f"expected a HiCache or a TransferEngine, got {type(cache).__name__}")
    return cache.engine
