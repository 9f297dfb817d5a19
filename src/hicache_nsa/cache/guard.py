"""One lock around every call, and the end of all calls after ``close()`` or in a forked child."""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar, cast

from hicache_nsa.errors import HiCacheError

Method = TypeVar("Method", bound=Callable[..., Any])


class Guard:
    """Lock and usability of one cache. unusable: why every call is refused, None while usable."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.unusable: str | None = None
        _guards.add(self)


_guards: weakref.WeakSet[Guard] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    """The copy threads did not come along, and somebody may have held the lock."""
    for guard in list(_guards):
        guard.lock = threading.RLock()
        guard.unusable = (
            "this cache belongs to the parent process: a forked child has none of its copy "
            "threads; make a cache after the fork"
        )


os.register_at_fork(after_in_child=_after_fork_in_child)


def atomic(method: Method) -> Method:
    """A public method of an object with a ``_guard``: atomic, and refused once unusable."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        guard: Guard = self._guard
        with guard.lock:
            if guard.unusable is not None:
                raise HiCacheError(guard.unusable)
            return method(self, *args, **kwargs)

    return cast(Method, call)
