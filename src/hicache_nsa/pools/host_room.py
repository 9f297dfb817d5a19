"""Asks the memory budget before a host pool is mapped."""

from __future__ import annotations

import os

from hicache_nsa.errors import HiCacheError
from hicache_nsa.memory_budget import (
    Budget,
    Claim,
    LocalRanks,
    MemoryLimits,
    budget,
    claim_room,
    first_look,
    huge_page_size,
    key_of,
    local_ranks_of,
    own_bytes,
    pending_bytes,
    read_limits,
)
from hicache_nsa.pools.memory_options import HostMemoryOptions
from hicache_nsa.sizes import format_size


def claim_host_room(num_pages: int, page_bytes: int, options: HostMemoryOptions) -> Claim:
    """A claim on the memory of ``num_pages``, to be closed when the memory is given back.

    Raises:
        HiCacheError: the budget allows less; what was asked for, what is allowed and why, and the
            largest pool that fits.
    """
    ranks = local_ranks_of(options.local_ranks, os.environ)
    nbytes = num_pages * page_bytes
    huge = huge_page_size() if options.huge_pages == "explicit" else None
    if huge is not None:
        _, claim = claim_room(
            lambda: _decide(options, ranks.number, read_limits(huge_page_bytes=huge)),
            -(-nbytes // huge) * huge,
        )
        if claim is not None:
            return claim
    # Also where explicit huge pages are too few: the pool takes ordinary memory then.
    room, claim = claim_room(lambda: _decide(options, ranks.number, read_limits()), nbytes)
    if claim is None:
        raise HiCacheError(_refusal(num_pages, page_bytes, room, ranks))
    return claim


def _decide(
    options: HostMemoryOptions, local_ranks: int, limits: MemoryLimits
) -> tuple[Budget, int]:
    key = key_of(limits)
    room = budget(
        limits,
        local_ranks,
        options.reserve_bytes,
        options.limit_bytes,
        # Asked after the limits were read: a rank publishes before it takes anything.
        first_look=first_look(key, local_ranks),
        held=own_bytes(key),
        pending=pending_bytes(key),
    )
    return room, key


def _refusal(num_pages: int, page_bytes: int, room: Budget, ranks: LocalRanks) -> str:
    asked, fits = num_pages * page_bytes, room.allowed // page_bytes
    largest = (
        f"the largest that fits has {fits} pages, host_size={fits * page_bytes}; ask for fewer"
        if fits
        else f"not one page of {page_bytes} bytes fits; free memory, or ask for fewer with "
        f"host_pages=0, no host tier"
    )
    advice = (
        "raise memory_limit= if these processes may take more"
        if room.source == "memory_limit"
        else "memory_limit= says how much there is where that is wrong"
    )
    return (
        f"no memory for a host pool of {num_pages} pages ({format_size(asked)}): "
        f"requested {asked} bytes, allowed {room.allowed} bytes ({format_size(room.allowed)}) by "
        f"{room.explain(ranks.source)}; {largest}. {advice}"
    )
