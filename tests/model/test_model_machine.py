"""The same rules as a Hypothesis state machine, which shrinks what it finds."""

from __future__ import annotations

from random import Random

import rules
from configurations import configuration
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from world import World

SEEDS = st.integers(0, 2**32 - 1)


class ModelMachine(RuleBasedStateMachine):
    """One World; a rule of this machine for each of ``rules.RULES``."""

    world: World | None = None

    @initialize(seed=SEEDS)
    def make(self, seed: int) -> None:
        self.world = World(configuration(Random(seed)))

    def teardown(self) -> None:
        if self.world is not None:
            self.world.close()


def _as_method(function: rules.Rule):
    def method(self: ModelMachine, seed: int) -> None:
        assert self.world is not None
        rules.step(self.world, function, Random(seed))

    method.__name__ = function.__name__
    return rule(seed=SEEDS)(method)


for _function in rules.RULES:
    setattr(ModelMachine, _function.__name__, _as_method(_function))

TestModelMachine = ModelMachine.TestCase
TestModelMachine.settings = settings(
    max_examples=100,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
