"""How much host memory one more pool may take: limits read once, then a pure decision."""

from hicache_nsa.memory_budget.budget import Budget, budget, default_reserve
from hicache_nsa.memory_budget.claims import (
    Claim,
    claim_room,
    first_look,
    key_of,
    own_bytes,
    pending_bytes,
)
from hicache_nsa.memory_budget.limits import MemoryLimit, MemoryLimits
from hicache_nsa.memory_budget.ranks import MOST_RANKS, LocalRanks, local_ranks_of
from hicache_nsa.memory_budget.reading import huge_page_size, read_limits

__all__ = [
    "MOST_RANKS",
    "Budget",
    "Claim",
    "LocalRanks",
    "MemoryLimit",
    "MemoryLimits",
    "budget",
    "claim_room",
    "default_reserve",
    "first_look",
    "huge_page_size",
    "key_of",
    "local_ranks_of",
    "own_bytes",
    "pending_bytes",
    "read_limits",
]
