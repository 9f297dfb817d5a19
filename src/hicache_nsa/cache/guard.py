"""One lock around every call, and the end of all calls after ``close()`` or in a forked child.

Calls are recorded in the cache's timeline here, too, with the time they wait for the lock.
"""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar, cast

from hicache_nsa._core import Timeline
from hicache_nsa.errors import HiCacheError

Method = TypeVar("Method", bound=Callable[..., Any])
Result = TypeVar("Result")

# Inner methods that are one public call, or one try of it, and are recorded as that.
_PARTS = {"_allocate": "allocate"}


class Guard:
    """Lock and usability of one cache.

    unusable: why every call is refused, None while usable.
    recorder: who is told of the calls; None while there is nobody.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.unusable: str | None = None
        self.recorder: Timeline | None = None
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
    """A public method of an object with a ``_guard``: atomic, and refused once unusable.

    Recorded under its name without the leading underscore, if it is one of ``_PARTS``; other
    private methods are not.
    """
    name = _PARTS.get(method.__name__, method.__name__)

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        guard: Guard = self._guard
        with guard.lock:
            if guard.unusable is not None:
                raise HiCacheError(guard.unusable)
            return method(self, *args, **kwargs)

    if name.startswith("_"):
        return cast(Method, call)

    @functools.wraps(method)
    def call_or_record(self: Any, *args: Any, **kwargs: Any) -> Any:
        guard: Guard = self._guard
        if guard.recorder is not None:
            return call_recorded(guard, name, call, self, *args, **kwargs)
        with guard.lock:  # as in call(), whose frame would cost as much as the lock
            if guard.unusable is not None:
                raise HiCacheError(guard.unusable)
            return method(self, *args, **kwargs)

    return cast(Method, call_or_record)


def recorded(method: Method) -> Method:
    """A public method that is not atomic as a whole: recorded in the timeline, no more."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return call_recorded(self._guard, method.__name__, method, self, *args, **kwargs)

    return cast(Method, call)


def call_recorded(
    guard: Guard, name: str, call: Callable[..., Result], /, *args: Any, **kwargs: Any
) -> Result:
    """What ``call`` returns; a span of the calling thread, if anybody is told of calls."""
    recorder = guard.recorder
    if recorder is None:
        return call(*args, **kwargs)
    begin = recorder.begin_call(name)
    try:
        return call(*args, **kwargs)
    finally:
        recorder.end_call("scheduler", name, begin)
