"""Calls a cache before and after each forward of a model that is handed this cache."""

from __future__ import annotations

import inspect
import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any, Protocol

from transformers import PreTrainedModel

from hicache_nsa.integrations.transformers.supported import CACHE_NAMES


@dataclass(frozen=True, eq=False)
class Forward:
    """A forward in progress: its thread and the frame that calls it."""

    thread: int
    frame: FrameType

    def is_ours(self) -> bool:
        """Whether the calling thread is the forward's."""
        return self.thread == threading.get_ident()

    def is_running(self) -> bool:
        """Whether the caller is inside it. An interrupt (^C) ends a forward without a hook."""
        frame: FrameType | None = sys._getframe() if self.is_ours() else None
        while frame is not None and frame is not self.frame:
            frame = frame.f_back
        return frame is not None


class Watcher(Protocol):
    """What the hooks call."""

    def begin_forward(self, arguments: dict[str, Any], forward: Forward) -> dict[str, Any]:
        """Before a forward; returns the arguments it is to run with."""

    def end_forward(self, succeeded: bool) -> None:
        """After it, also where it raised an Exception."""


def watch_forwards(model: PreTrainedModel, watcher: Watcher) -> Callable[[], None]:
    """Register the hooks; returns what removes them. They keep neither side alive, and leave
    alone every forward that is not handed ``watcher`` as its cache.
    """
    names = list(inspect.signature(model.forward).parameters)
    of = weakref.ref(watcher)
    watched = weakref.ref(model)

    def is_ours(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        cache = of()
        if cache is None or module is not watched():  # a copy of the model has the hooks too
            return False
        return any(value is cache for value in (*args, *map(kwargs.get, CACHE_NAMES)))

    def before(
        module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[()], dict[str, Any]] | None:
        cache = of()
        if cache is None or not is_ours(module, args, kwargs):
            return None
        forward = Forward(threading.get_ident(), sys._getframe(1))
        arguments = {**dict(zip(names, args, strict=False)), **kwargs}
        return (), cache.begin_forward(arguments, forward)

    def after(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        cache = of()
        if cache is not None and is_ours(module, args, kwargs):
            cache.end_forward(output is not None)

    handles = (
        model.register_forward_pre_hook(before, with_kwargs=True),
        model.register_forward_hook(after, with_kwargs=True, always_call=True),
    )

    def remove() -> None:
        for handle in handles:
            handle.remove()

    weakref.finalize(watcher, remove)
    return remove
