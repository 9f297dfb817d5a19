"""check() sees damage: each rule is broken by hand once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import hicache_nsa as hc
from hicache_nsa import testing
from hicache_nsa.plan import Owner

PAGE = 4


def busy_cache() -> tuple[hc.HiCache, list[object]]:
    """A cache with pages of every owner, and a save and a load in flight (kept so by holds)."""
    fmt = hc.formats.dsa(2, page_size=PAGE, kv_lora_rank=128, rope_head_dim=4)
    cache = hc.HiCache(fmt, device_pages=16, host_pages=16)
    cache.insert(range(8), cache.allocate(2))
    assert cache.drain(30)
    cache.reset()
    holds = [testing.hold(cache, "h2d"), testing.hold(cache, "d2h")]
    for hold in holds:
        hold.__enter__()
    load = cache.load_back(cache.match_prefix(range(8)))
    cache.insert(range(100, 112), cache.allocate(3))
    cache.allocate(2)
    cache.insert(range(200, 208), cache.allocate(2))
    pin = cache.pin(cache.match_prefix(range(200, 208)), 1000)
    cache.check()
    return cache, [holds, (load, pin)]


def set_array(array: np.ndarray, index: int, value: int) -> None:
    array[index] = value


def first_page(cache: hc.HiCache, owner: Owner) -> int:
    return int(np.flatnonzero(cache._state.ledger.owner == owner)[0])


def saved_node(cache: hc.HiCache):
    return next(node for node in cache.tree.nodes() if node.host_value is not None)


def pinned_node(cache: hc.HiCache):
    return next(node for node in cache.tree.nodes() if node.pin_ref)


def device_node(cache: hc.HiCache):
    return next(node for node in cache.tree.nodes() if node.value is not None)


DAMAGE: dict[str, Callable[[hc.HiCache], object]] = {
    "a caller's page counted twice": lambda c: setattr(c._state.ledger, "callers", 9),
    "a pending page too many": lambda c: setattr(c._state.ledger, "pending", 9),
    "a pending page without a holder": lambda c: c._state.ledger.holder.popitem(),
    "a cached page marked as a caller's": lambda c: set_array(
        c._state.ledger.owner, first_page(c, Owner.TREE), Owner.CALLER
    ),
    "a free page marked as cached": lambda c: set_array(
        c._state.ledger.owner, first_page(c, Owner.FREE), Owner.TREE
    ),
    "a page in two nodes": lambda c: setattr(
        device_node(c), "value", np.roll(device_node(c).value, 1)[:1].repeat(2)
    ),
    "a host page in two places": lambda c: setattr(
        saved_node(c), "host_value", c._state.saves[0].host_pages[: len(saved_node(c).host_value)]
    ),
    "host pages being filled": lambda c: setattr(c._state, "filling", 1),
    "a host page nobody has": lambda c: c.host_pool.allocate(1),
    "a device page nobody has": lambda c: c.device_pool.allocate(1),
    "a copy without a lock": lambda c: c.tree.unlock(c._state.saves[0].node),
    "a load that is forgotten": lambda c: c._state.loads.clear(),
    "a save that is forgotten": lambda c: c._state.saves.clear(),
    "a node that was removed": lambda c: setattr(c._state.saves[0].node, "removed", True),
    "a locked count that is off": lambda c: setattr(c.tree.device, "locked", 7),
    "a disowned load that is still joined": lambda c: setattr(c._state.loads[0], "failed", True),
    "a pin that nobody holds": lambda c: c.tree.pin(c._state.saves[0].node),
    "a pin without a lock": lambda c: [c.tree.unlock(pinned_node(c)) for _ in range(2)],
    "a pin that is forgotten": lambda c: c._state.pins._heap.clear(),
    "a pinned count that is off": lambda c: setattr(c.tree.host, "pinned", 7),
    "a gap in the tree": lambda c: setattr(device_node(c), "value", None),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_check_sees(damage: Callable[[hc.HiCache], object]) -> None:
    cache, (holds, _) = busy_cache()
    damage(cache)
    with pytest.raises(hc.InvariantError):
        cache.check()
    for hold in holds:
        hold.__exit__(None, None, None)
    cache.engine.close()


def test_the_undamaged_cache_passes() -> None:
    cache, (holds, (load, pin)) = busy_cache()
    cache.check()
    pin.release()
    cache.check()
    for hold in holds:
        hold.__exit__(None, None, None)
    load.release()
    assert cache.drain(30)
    cache.check()
    cache.close()
