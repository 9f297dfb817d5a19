"""The seeded driver against the model: 200,000 steps over every policy, acks and layout."""

from __future__ import annotations

from random import Random

import pytest
from configurations import ACKS, LAYOUTS, configuration, policies
from history import run, shrink

STEPS = 200_000
SEEDS = 2
KINDS = [
    (write_policy, eviction_policy, acks, layout)
    for write_policy, eviction_policy in policies()
    for acks in ACKS
    for layout in LAYOUTS
]
STEPS_A_SEED = -(-STEPS // (SEEDS * len(KINDS)))


@pytest.mark.parametrize(("write_policy", "eviction_policy", "acks", "layout"), KINDS)
def test_a_cache_does_what_the_model_does(
    write_policy: str, eviction_policy: str, acks: str, layout: str
) -> None:
    for seed in range(SEEDS):
        made = configuration(
            Random(seed),
            write_policy=write_policy,
            eviction_policy=eviction_policy,
            acks=acks,
            layout=layout,
        )
        failure = run(seed, range(STEPS_A_SEED), made)
        assert failure is None, str(shrink(failure))
