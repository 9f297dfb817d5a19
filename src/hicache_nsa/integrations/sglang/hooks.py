"""Hooks on SGLang, an entry point of the group ``sglang.srt.plugins``.

New weights: SGLang flushes its cache after an update with the same call as for ``/flush_cache``. A
linker that keeps host pages over a flush must know the difference: after every update it is told
to drop them. Copies are waited for before SGLang releases the memory that they use.

What is above a tail: a linker is asked for the tail of a prompt that isn't on the device, and not
told what is above it. With that hash the host pages of a prefix stay as long as any below them.
"""

from __future__ import annotations

import inspect
import logging
import pkgutil
from collections.abc import Callable
from typing import Any

from hicache_nsa.integrations.linking import live

MANAGER = "sglang.srt.managers.scheduler_components.weight_updater.SchedulerWeightUpdaterManager"
WRAPPER = "sglang.srt.mem_cache.unified_cache.unified_cache_linker.UnifiedCacheLinkerWrapper"
_UPDATES = "update_weights_from_"
_END = "end_weight_update"
_RELEASE = "release_memory_occupation"
_MATCH = "match"

log = logging.getLogger("hicache_nsa.sglang")


def install() -> None:
    """The entry point: SGLang calls it in every process, and applies the hooks afterwards."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    for name in _update_methods(pkgutil.resolve_name(MANAGER)):
        HookRegistry.register(f"{MANAGER}.{name}", around_update, HookType.AROUND)
    HookRegistry.register(f"{MANAGER}.{_RELEASE}", before_release, HookType.BEFORE)
    HookRegistry.register(f"{WRAPPER}.{_MATCH}", before_match, HookType.BEFORE)


def around_update(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run an update of weights, then drop all host pages, however it ended."""
    try:
        return original(*args, **kwargs)
    finally:
        live.invalidate_all()


def before_release(*args: Any, **kwargs: Any) -> None:
    """Wait for copies before SGLang releases the memory that they read or write."""
    for linker in live.linkers():
        linker.quiesce()


def before_match(wrapper: Any, key: Any, req: Any, result: Any, *_: Any, **__: Any) -> None:
    """Tell a linker of ours which hash ends the part of ``req``'s prompt that is on the device."""
    above = getattr(wrapper.cache_linker, "above", None)
    last_hash = getattr(wrapper.cache, "get_last_hash_value", None)
    if above is None or last_hash is None:
        return
    on_device = getattr(result, "device_prefix_len", 0) > 0
    above(req.rid, last_hash(result.last_device_node) if on_device else None)


def missing_hooks() -> list[str]:
    """The methods around weights that should be hooked and are not; empty: all are."""
    try:
        manager = pkgutil.resolve_name(MANAGER)
        updates = _update_methods(manager)
    except (ImportError, AttributeError) as error:
        return [f"{MANAGER} ({error})"]
    missing = [name for name in updates if not _is_hooked(manager, name, around_update)]
    if not _is_hooked(manager, _RELEASE, before_release):
        missing.append(_RELEASE)
    return missing


def match_is_hooked() -> bool:
    """Whether linkers are told what is above a tail."""
    return _is_hooked(pkgutil.resolve_name(WRAPPER), _MATCH, before_match)


def _update_methods(manager: Any) -> list[str]:
    """Every method after which the weights may be others.

    Raises:
        AttributeError: there is none; this version of SGLang updates weights in another way.
    """
    names = [name for name in dir(manager) if name.startswith(_UPDATES) or name == _END]
    if not any(name.startswith(_UPDATES) for name in names):
        raise AttributeError(f"it has no method {_UPDATES}...")
    return names


def _is_hooked(owner: Any, name: str, hook: Callable[..., Any]) -> bool:
    """Whether a wrapper with our ``hook`` is among those around the method."""
    function = inspect.getattr_static(owner, name, None)
    while function is not None:
        if any(_holds(cell, hook) for cell in getattr(function, "__closure__", None) or ()):
            return True
        function = getattr(function, "__wrapped__", None)
    return False


def _holds(cell: Any, hook: Callable[..., Any]) -> bool:
    try:
        return cell.cell_contents is hook
    except ValueError:  # an empty cell
        return False
