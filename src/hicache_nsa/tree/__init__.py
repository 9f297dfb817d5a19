"""The radix tree over token pages: what is cached, in which tier, and what may be evicted."""

from hicache_nsa.tree.eviction import EVICTION_POLICIES, EvictionPolicy
from hicache_nsa.tree.node import Node
from hicache_nsa.tree.radix_tree import Demotion, Eviction, RadixTree
from hicache_nsa.tree.restored import restore_host
from hicache_nsa.tree.tier import Tier

__all__ = [
    "EVICTION_POLICIES",
    "Demotion",
    "Eviction",
    "EvictionPolicy",
    "Node",
    "RadixTree",
    "Tier",
    "restore_host",
]
