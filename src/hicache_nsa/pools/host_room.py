"""Asks the memory budget before a host pool is mapped."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

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
from hicache_nsa.pools.host_file import in_the_way
from hicache_nsa.pools.host_size import pages_that_fit
from hicache_nsa.pools.memory_options import HostMemoryOptions
from hicache_nsa.sizes import format_size


def claim_host_room(
    num_pages: int, size_of: Callable[[int], int], missing: int, options: HostMemoryOptions
) -> Claim:
    """A claim on the memory of ``num_pages``, to be closed when the memory is given back.

    size_of: bytes that a pool of so many pages takes. missing: what is not there yet of this one; a
        host file may have it already.

    Raises:
        HiCacheError: the budget allows less; what was asked for, what is allowed and why, and the
            largest pool that fits.
    """
    ranks = local_ranks_of(options.local_ranks, os.environ)
    huge = huge_page_size() if options.huge_pages == "explicit" else None
    file = None if options.path is None else Path(options.path)
    if huge is not None and file is None:
        _, claim = claim_room(
            lambda: _decide(options, ranks.number, read_limits(huge_page_bytes=huge)),
            -(-missing // huge) * huge,
        )
        if claim is not None:
            return claim
    # Also where explicit huge pages are too few: the pool takes ordinary memory then.
    room, claim = claim_room(
        lambda: _decide(options, ranks.number, read_limits(file=file)), missing
    )
    if claim is None:
        refusal = _refusal(num_pages, size_of, missing, room, ranks)
        if options.path is not None and missing == size_of(num_pages):
            refusal += in_the_way(options.path)
        raise HiCacheError(refusal)
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


def _refusal(
    num_pages: int, size_of: Callable[[int], int], missing: int, room: Budget, ranks: LocalRanks
) -> str:
    fits = pages_that_fit(room.allowed, num_pages, size_of)
    largest = (
        f"the largest that fits has {fits} pages, host_size={size_of(fits)}; ask for fewer"
        if fits
        else f"not one page of {size_of(1)} bytes fits; free memory, or ask for fewer with "
        f"host_pages=0, no host tier"
    )
    advice = (
        "raise memory_limit= if these processes may take more"
        if room.source == "memory_limit"
        else "memory_limit= says how much there is where that is wrong"
    )
    return (
        f"no memory for a host pool of {num_pages} pages ({format_size(size_of(num_pages))}): "
        f"requested {missing} bytes, allowed {room.allowed} bytes ({format_size(room.allowed)}) by "
        f"{room.explain(ranks.source)}; {largest}. {advice}"
    )
