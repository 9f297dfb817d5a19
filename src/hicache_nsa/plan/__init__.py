"""Pure planning: what a call would do, worked out from the tree without changing anything."""

from hicache_nsa.plan.insert import Holder, InsertPlan, Prefix, plan_insert, tree_pages
from hicache_nsa.plan.load import LoadPlan, common_pages, plan_load
from hicache_nsa.plan.ownership import Owner
from hicache_nsa.plan.prefix import CachedPrefix, cached_prefix, cached_tokens
from hicache_nsa.plan.save import SavePlan, plan_save

__all__ = [
    "CachedPrefix",
    "Holder",
    "InsertPlan",
    "LoadPlan",
    "Owner",
    "Prefix",
    "SavePlan",
    "cached_prefix",
    "cached_tokens",
    "common_pages",
    "plan_insert",
    "plan_load",
    "plan_save",
    "tree_pages",
]
