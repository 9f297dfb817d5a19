"""Hooks for tests: keep copies in flight, make one fail, make a host pool ready step by step, spoil
a host page, say what time it is.

They act on the real transfer engine and on real memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hicache_nsa.cache.use_times import UseTimes
from hicache_nsa.pools import HostPool
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


def use_clock(cache: HiCache, clock: Callable[[], float]) -> None:
    """Ages of evicted pages go by ``clock`` (seconds, never falling); what is cached counts as used
    now.
    """
    cache._state.uses = UseTimes(clock)


@contextmanager
def hold_preparation() -> Iterator[None]:
    """Memory of host pools that is made inside stops getting ready after ``prepare_first`` bytes.

    From there on ``step_preparation`` and ``finish_preparation`` make more of it ready. What waits
    for all of it (``HostPool.wait_ready``, engines alone, ``acks="poll"``) waits for those calls.
    """
    HostPool._preparation_held, before = True, HostPool._preparation_held
    try:
        yield
    finally:
        HostPool._preparation_held = before


def step_preparation(cache: HiCache | HostPool) -> int:
    """``prepare_step`` more bytes of held memory get ready; returns how many are, once they are.

    A GPU's chunks are ready as a whole only.
    """
    pool = _host_pool(cache)
    pool.memory.step()
    return pool.ready_bytes


def finish_preparation(cache: HiCache | HostPool) -> None:
    """Let the rest of held memory get ready, in the background as without a hold."""
    _host_pool(cache).memory.unhold()


def _host_pool(cache: HiCache | HostPool) -> HostPool:
    pool = cache if isinstance(cache, HostPool) else getattr(cache, "host_pool", None)
    if not isinstance(pool, HostPool):
        raise TypeError(f"expected a HiCache or a HostPool, got {type(cache).__name__}")
    return pool


def corrupt(pool: HiCache | HostPool, page: int, layer: int, byte: int = 0) -> None:
    """Flip a bit in the host copy of a page, as broken memory would.

    byte: of all that the host page holds of ``layer``, its buffers one after the other.

    Raises:
        ValueError: there is no such page, layer or byte.
    """
    host = _host_pool(pool)
    owners = [each for each in host.format.buffers if layer in each.layers]
    count = sum(each.page_bytes for each in owners)
    if not 0 <= byte < count:
        raise ValueError(f"byte {byte}: layer {layer} of a page has {count} bytes")
    for each in owners:
        if byte < each.page_bytes:
            host.page_view(each.name, layer, page)[byte] ^= 0x10
            return
        byte -= each.page_bytes


def _engine(cache: HiCache | TransferEngine) -> TransferEngine:
    if isinstance(cache, TransferEngine):
        return cache
    if not isinstance(getattr(cache, "engine", None), TransferEngine):
        raise TypeError(f"expected a HiCache or a TransferEngine, got {type(cache).__name__}")
    return cache.engine
