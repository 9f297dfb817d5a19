"""The end of a cache."""

from __future__ import annotations

from hicache_nsa.cache.acks import finish_save
from hicache_nsa.cache.corrupt import drop_corrupt
from hicache_nsa.cache.state import CacheState


def close_state(state: CacheState) -> None:
    """Finish copies and let go of the memory. A host file stays, with what was saved."""
    state.engine.close()
    if state.host.kept:
        _take_last_saves(state)
        _drop_last_corrupt(state)
    state.host.close()
    state.ledger.pool.close()


def _take_last_saves(state: CacheState) -> None:
    """The copies have ended: a host file gets what they brought."""
    for save in list(state.saves):
        if save.tree is state.tree and save.ticket.done():
            state.saves.remove(save)
            finish_save(state, save)


def _drop_last_corrupt(state: CacheState) -> None:
    """What loads found wrong that nobody has taken in is not for the next process."""
    for load in state.loads:
        if load.tree is state.tree and load.ticket.done():
            drop_corrupt(state, load, in_order=False)
