"""Random histories of tests/model with a consumer of events beside them."""

from __future__ import annotations

from random import Random

import rules
from configurations import Configuration
from consumer import Consumer, cached
from world import World


class Followed:
    """start: the step from which on events are recorded. every: how often they are taken."""

    def __init__(
        self, made: Configuration, *, start: int = 0, every: int = 1, capacity: int = 1 << 16
    ) -> None:
        self.world = World(made)
        self.consumer = Consumer()
        self.log = None
        self.taken = 0
        self._start, self._every, self._capacity = start, every, capacity

    def run(self, seed: int, steps: int) -> None:
        rng = Random()
        try:
            for step in range(steps):
                if step == self._start:
                    self.log = self.world.cache.record_events(self._capacity)
                rng.seed(f"{seed} {step}")
                rules.step(self.world, rules.any_rule(rng), rng)
                if self.log is not None and step % self._every == 0:
                    self.follow()
            self.world.end()
            self.follow()
        finally:
            self.world.close()

    def follow(self) -> None:
        events = self.log.take()
        self.taken += len(events)
        self.consumer.apply(events)
        assert self.consumer.sets == cached(self.world.cache)
        assert self.log.take() == []
