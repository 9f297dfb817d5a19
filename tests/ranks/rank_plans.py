"""What the ranks of test_ranks.py do."""

from __future__ import annotations

from dataclasses import replace

from rank_work import Plan

WRITE_BACK = {"write_policy": "write_back", "low_water": 0.1}
SELECTIVE = {"write_policy": "write_through_selective"}

# Steps are those of 2 ranks; 4 share as many processors and do half of them.
PLANS = {
    "uneven": Plan(seed=1, steps=1000, sleep=0.001),
    "failing": Plan(seed=2, steps=400, fail=(1,)),
    "failing everywhere": Plan(seed=3, steps=300, fail=(0, 1, 2, 3), fail_share=0.02),
    "write back": Plan(seed=5, steps=400, fail=(1,), options=WRITE_BACK),
    "selective": Plan(seed=6, steps=400, options=SELECTIVE),
    "unbounded": Plan(seed=4, steps=60, unbounded=0),
}


def own_host_pages(rank: int) -> int:
    """What a rank's machine has room for: rank 1 the least."""
    return (36, 35, 48, 39)[rank]


def plan_for(name: str, ranks: int) -> Plan:
    """The plan of that name for so many ranks."""
    plan = PLANS[name]
    return replace(plan, steps=2 * plan.steps // ranks)
