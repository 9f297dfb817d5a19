"""What a model's KV takes, how much of it fits, and when bringing it back pays. Pure but for the
kept link curve.
"""

from hicache_nsa.sizing.bandwidth import Bandwidth, NoBandwidth, kept_bandwidth
from hicache_nsa.sizing.loads import (
    FORMULA,
    BreakEven,
    FixedCost,
    LoadTime,
    break_even,
    load_time,
)
from hicache_nsa.sizing.report import ModelRow, SizeReport
from hicache_nsa.sizing.tiers import TierSize, tier_size

__all__ = [
    "FORMULA",
    "Bandwidth",
    "BreakEven",
    "FixedCost",
    "LoadTime",
    "ModelRow",
    "NoBandwidth",
    "SizeReport",
    "TierSize",
    "break_even",
    "kept_bandwidth",
    "load_time",
    "tier_size",
]
