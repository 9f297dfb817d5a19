"""``budget``: what one more pool may take. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from hicache_nsa.memory_budget.limits import MemoryLimit, MemoryLimits
from hicache_nsa.sizes import format_size

GIB = 1 << 30
NO_LIMIT = 1 << 62


def default_reserve(total: int) -> int:
    """What is kept of a limit: a twentieth, from 1 to 16 GiB, never more than an eighth."""
    return min(max(GIB, total // 20), 16 * GIB, total // 8)


@dataclass(frozen=True)
class Budget:
    """allowed: bytes that one more pool of this process may take.

    limit: the tightest one. reserve: what is kept of it. divided: bytes of it that the local ranks
    divide. held: bytes of this process's pools that its share was reduced by.
    look: what the local ranks divide, by all limits that were read: a first look for later ranks.
    """

    allowed: int
    limit: MemoryLimit
    reserve: int
    local_ranks: int
    divided: int
    held: int
    look: int

    @property
    def source(self) -> str:
        """The file of the tightest limit, or ``memory_limit``."""
        return self.limit.source

    def explain(self, ranks_source: str) -> str:
        """The numbers that ``allowed`` comes from; ``ranks_source`` says who counted the ranks."""
        limit = self.limit
        parts = [f"{format_size(limit.total)} in all", f"{format_size(limit.available)} available"]
        if self.reserve:
            parts.append(f"{format_size(self.reserve)} kept in reserve")
        ranks = f"{self.local_ranks} local rank{'s' if self.local_ranks > 1 else ''}"
        if self.local_ranks > 1:
            parts.append(f"{format_size(self.divided)} divided by {ranks} ({ranks_source})")
        else:
            parts.append(f"{ranks} ({ranks_source})")
        if self.held:
            parts.append(f"{format_size(self.held)} held by this process's other pools")
        return f"{limit.source}: {', '.join(parts)}"


class _Bound(NamedTuple):
    """What one limit allows, and the numbers behind it (see ``Budget``)."""

    allowed: int
    limit: MemoryLimit
    reserve: int
    divided: int
    held: int


def budget(
    limits: MemoryLimits,
    local_ranks: int = 1,
    reserve: int | None = None,
    memory_limit: int | None = None,
    *,
    first_look: int | None = None,
    held: int = 0,
    pending: int = 0,
) -> Budget:
    """What one more pool of one of ``local_ranks`` processes may take.

    reserve: bytes of each limit on memory that are kept; None: ``default_reserve``.
    memory_limit: bytes that the pools of all these processes may take, in place of the limits on
        memory that were read; nothing of it is kept unless ``reserve`` says so.
    first_look: what the first of the local ranks found to divide. Its pool is in use by now, so
        that less is available; the share is that of the first look all the same, as long as half
        of the reserve stays.
    held: bytes of this process's own pools, part of its share.
    pending: bytes of them that are mapped and not in use yet.
    """
    read = [
        _bound(limit, kept, local_ranks, first_look, held, pending)
        for limit, kept in (
            *((each, _kept(each, reserve)) for each in limits.memory),
            *((each, 0) for each in limits.space),
        )
    ]
    look = min((bound.divided for bound in read), default=NO_LIMIT)
    bounds = read
    if memory_limit is not None:
        divided = max(0, memory_limit - (reserve or 0))
        given = MemoryLimit("memory_limit", memory_limit, memory_limit)
        share = divided // local_ranks - held
        bounds = [_Bound(share, given, reserve or 0, divided, held), *read[len(limits.memory) :]]
    nothing = MemoryLimit("no limit was found", NO_LIMIT, NO_LIMIT)
    tight = min(
        bounds,
        key=lambda bound: (bound.allowed, bound.limit.available - bound.reserve),
        default=_Bound(NO_LIMIT, nothing, 0, NO_LIMIT, 0),
    )
    return Budget(
        max(0, tight.allowed), tight.limit, tight.reserve, local_ranks, tight.divided, tight.held,
        look,
    )  # fmt: skip


def _kept(limit: MemoryLimit, reserve: int | None) -> int:
    return default_reserve(limit.total) if reserve is None else reserve


def _bound(
    limit: MemoryLimit,
    reserve: int,
    local_ranks: int,
    first_look: int | None,
    held: int,
    pending: int,
) -> _Bound:
    available = limit.available - pending
    if local_ranks == 1:  # what the process holds is in use, and no part of what is available
        return _Bound(available - reserve, limit, reserve, max(0, available - reserve), 0)
    if first_look is not None:
        share = min(first_look // local_ranks - held, available - reserve // 2)
        return _Bound(share, limit, reserve, first_look, held)
    divided = max(0, available - reserve) + held
    return _Bound(divided // local_ranks - held, limit, reserve, divided, held)
