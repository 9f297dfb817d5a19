"""Calls a cache before and after each forward of a model that is handed this cache."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable
from typing import Any, Protocol

from transformers import PreTrainedModel

from hicache_nsa.integrations.transformers.supported import CACHE_NAMES


class Watcher(Protocol):
    """What the hooks call."""

    def begin_forward(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Before a forward; returns the arguments it is to run with."""

    def end_forward(self, succeeded: bool) -> None:
        """After it, also where it raised."""


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
        return (), cache.begin_forward({**dict(zip(names, args, strict=False)), **kwargs})

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
