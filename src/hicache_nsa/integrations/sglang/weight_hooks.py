"""Hooks on SGLang's weight updates, an entry point of the group ``sglang.srt.plugins``.

SGLang flushes its cache after new weights with the same call as for ``/flush_cache``. A linker that
keeps host pages over a flush must know the difference: after every update it is told to drop them.
Memory that SGLang is about to release is no place for copies, so they are waited for before.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any

from hicache_nsa.integrations.linking import live

MANAGER = "sglang.srt.managers.scheduler_components.weight_updater.SchedulerWeightUpdaterManager"
_UPDATES = "update_weights_from_"
_END = "end_weight_update"
_RELEASE = "release_memory_occupation"

log = logging.getLogger("hicache_nsa.sglang")


def install() -> None:
    """The entry point: SGLang calls it in every process, and applies the hooks afterwards."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    for name in _update_methods(_manager()):
        HookRegistry.register(f"{MANAGER}.{name}", around_update, HookType.AROUND)
    HookRegistry.register(f"{MANAGER}.{_RELEASE}", before_release, HookType.BEFORE)


def around_update(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run an update of weights, then drop all host pages, however it ended.

    A flush within it (and there is none if it failed, or was not asked for) cleans the device.
    """
    before = {linker: linker.resets for linker in live.linkers()}
    try:
        return original(*args, **kwargs)
    finally:
        for linker in live.linkers():
            linker.invalidate(flushed=linker.resets > before.get(linker, linker.resets))


def before_release(*args: Any, **kwargs: Any) -> None:
    """Wait for copies before SGLang releases the memory that they read or write."""
    for linker in live.linkers():
        linker.quiesce()


def missing_hooks() -> list[str]:
    """The methods that should be hooked and are not; empty: all are."""
    try:
        manager = _manager()
    except (ImportError, AttributeError) as error:
        return [f"{MANAGER} ({error})"]
    wanted = dict.fromkeys(_update_methods(manager), around_update)
    missing = [name for name, hook in wanted.items() if not _is_hooked(manager, name, hook)]
    if not _is_hooked(manager, _RELEASE, before_release):
        missing.append(_RELEASE)
    return missing


def _manager() -> Any:
    import pkgutil

    return pkgutil.resolve_name(MANAGER)


def _update_methods(manager: Any) -> list[str]:
    """Every method after which the weights may be others.

    Raises:
        AttributeError: there is none; this version of SGLang updates weights in another way.
    """
    names = [name for name in dir(manager) if name.startswith(_UPDATES) or name == _END]
    if not any(name.startswith(_UPDATES) for name in names):
        raise AttributeError(f"{manager.__name__} has no method {_UPDATES}...")
    return names


def _is_hooked(manager: Any, name: str, hook: Callable[..., Any]) -> bool:
    """Whether a wrapper with our ``hook`` is among those around the method."""
    function = inspect.getattr_static(manager, name, None)
    while function is not None:
        for cell in getattr(function, "__closure__", None) or ():
            if cell.cell_contents is hook:
                return True
        function = getattr(function, "__wrapped__", None)
    return False
