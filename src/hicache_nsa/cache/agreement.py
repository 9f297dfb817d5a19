"""What ranks agree on: which copies all of them can take in now, and if their caches are alike."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from operator import attrgetter
from typing import NamedTuple

from hicache_nsa.cache.copies import Copy, Load
from hicache_nsa.cache.state import CacheState
from hicache_nsa.tokens import PageIds
from hicache_nsa.tree.digest import digest_of, tree_digest


class Ready(NamedTuple):
    """Leading copies in flight of one rank, in the order in which ``poll`` takes them in.

    ended: have ended, well or not. sound: have ended well, before the first that failed.

    The least of each over all ranks is what all ranks can do: ``poll(ended, sound=sound)``. If
    ``sound`` is the smaller one then, the copy behind the sound ones failed somewhere and has
    ended everywhere.
    """

    ended: int
    sound: int


def copies_in_order(state: CacheState) -> Iterator[Copy]:
    """Copies in flight of both directions, in the order of submission."""
    return merge(state.loads, state.saves, key=attrgetter("number"))


def ready(state: CacheState) -> Ready:
    """How many leading copies have ended here, and how many of those well."""
    ended, sound = 0, None
    for copy in copies_in_order(state):
        if not copy.ticket.done():
            break
        if copy.error is not None and sound is None:
            sound = ended
        ended += 1
    return Ready(ended, ended if sound is None else sound)


def require_agreed(state: CacheState, limit: int | None, sound: int) -> None:
    """``ValueError`` unless the numbers can be the least of all ranks, this one included."""
    if limit is None or sound > limit:
        raise ValueError(
            f"sound={sound} of limit={limit} copies: give poll() both numbers as the ranks agreed "
            f"on them"
        )
    here = ready(state)
    if limit > here.ended or sound > here.sound:
        raise ValueError(
            f"limit={limit}, sound={sound}, but only {here.ended} copies have ended here, "
            f"{here.sound} of them sound: agree on the least of all ranks' ready(), anew after "
            f"every poll, drain and flush"
        )


def cache_digest(state: CacheState) -> int:
    """A digest of the tree, of who has which device page, and of the copies in flight."""
    ledger = state.ledger
    plain = (tree_digest(state.tree), ledger.pool.free_pages, state.host.free_pages, state.version)
    parts: list[bytes | PageIds] = [repr(plain).encode(), ledger.owner.tobytes()]
    for copy in copies_in_order(state):
        parts += [repr(_plain(copy)).encode(), copy.device_pages, copy.host_pages]
    return digest_of(parts)


def _plain(copy: Copy) -> tuple[object, ...]:
    plain = type(copy).__name__, copy.number, copy.start, copy.end
    if not isinstance(copy, Load):
        return plain
    above = [load.number for load in copy.above]
    return *plain, above, copy.users, copy.failed, len(copy.waiting)
