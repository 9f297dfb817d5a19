"""pin: lock what is cached of a match for a time, as far as the budget of all pins allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hicache_nsa.cache.handles import PrefixMatch
from hicache_nsa.cache.locking import lock_match
from hicache_nsa.cache.pins import Pin
from hicache_nsa.cache.state import CacheState
from hicache_nsa.errors import OutOfPages
from hicache_nsa.pools import Pool
from hicache_nsa.tree import Node, Tier

if TYPE_CHECKING:
    from hicache_nsa.cache.ends import Ends


def pin_match(state: CacheState, match: PrefixMatch, seconds: float, ends: Ends) -> Pin:
    """Lock what is left of ``match`` until ``seconds`` from now.

    Raises:
        OutOfPages: pins would hold more than their share of a tier; nothing changed.
    """
    now = state.pins.now()
    node = state.tree.surviving(match._node, match.tokens)
    path = [] if node is None else node.path()
    tree = state.tree
    for tier, pool in ((tree.device, state.ledger.pool), (tree.host, state.host)):
        _require_budget(state, tier, pool, path, match.tokens, now)
    handle = lock_match(state, match)
    state.tree.pin(handle._node)
    pin = Pin(
        handle._node, state.epoch, handle.device_tokens, handle.host_tokens, now + seconds, ends
    )
    state.pins.add(pin)
    return pin


def end_pin(state: CacheState, pin: Pin) -> None:
    """``pin`` is over; a no-op where it was already, or is from before a flush."""
    if not pin._ended and pin._epoch is state.epoch:
        state.tree.unpin(pin._node)
        state.tree.unlock(pin._node)
    pin._ended = True


def expire_pins(state: CacheState) -> None:
    """End the pins whose time is over."""
    if state.pins:
        for pin in state.pins.expired(state.pins.now()):
            end_pin(state, pin)


def _require_budget(
    state: CacheState, tier: Tier, pool: Pool, path: list[Node], end: int, now: float
) -> None:
    """Refuse a pin of ``path`` up to position ``end`` that would exceed the share in ``tier``."""
    there = new = 0
    for node in path:
        pages = min(tier.count(node), (min(node.end, end) - node.start) // state.page_size)
        there += pages
        new += pages if node.pin_ref == 0 else 0
    budget = state.pins.budget(pool.total_pages)
    if there == 0 or tier.pinned + new <= budget:
        return
    ends = min((pin.expires for pin in state.pins.held(state.epoch)), default=None)
    later = "" if ends is None else f", wait for the next one to end (in {max(ends - now, 0):g} s)"
    raise OutOfPages(
        f"a pin of {there} {tier.name} pages, {new} of them not pinned yet: pins hold "
        f"{tier.pinned} and may hold {budget} together (pin_share={state.pins.share} of "
        f"{pool.total_pages}); pin less, release a pin{later} or give a larger pin_share"
    )
