"""How long ago ticks were: to a tenth of a second, and to a hundredth of the age in the end."""

from __future__ import annotations

from random import Random

from hicache_nsa.cache.use_times import AGE_BOUNDS, MOST, SHARE, STEP, UseTimes
from hicache_nsa.histogram import Histogram


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def age_of(uses: UseTimes, tick: int) -> float:
    ages = Histogram(AGE_BOUNDS)
    uses.add_ages(ages, [(tick, 1)])
    assert ages.count == 1
    return ages.total


def test_an_age_is_that_of_the_last_use() -> None:
    clock = Clock()
    uses = UseTimes(clock)
    for tick, seconds in ((1, 5.0), (2, 0.5), (3, 100.0)):
        clock.now += seconds
        uses.note(tick)
    clock.now += 2.0
    assert [age_of(uses, tick) for tick in (3, 2, 1)] == [2.0, 102.0, 102.5]
    assert age_of(uses, 9) == 2.0  # between that tick and now: no earlier than its sample
    assert age_of(uses, 0) == 107.5  # there from the start


def test_many_nodes_at_once_are_what_they_are_one_by_one() -> None:
    random, clock = Random(5), Clock()
    uses = UseTimes(clock)
    for tick in range(1, 400):
        clock.now += random.choice((0.0, 0.01, 0.3, 7.0))
        uses.note(tick)
    ticks = [random.randrange(410) for _ in range(300)]
    for order in (ticks, sorted(ticks), sorted(ticks, reverse=True)):
        together, apart = Histogram(AGE_BOUNDS), Histogram(AGE_BOUNDS)
        nodes = [(tick, random.randrange(1, 5)) for tick in order]
        uses.add_ages(together, nodes)
        for node in nodes:
            uses.add_ages(apart, [node])
        assert together.counts == apart.counts
        assert abs(together.total - apart.total) < 1e-6 * apart.total
    uses.add_ages(together, [])
    assert together.counts == apart.counts


def test_samples_stay_few_and_near_enough() -> None:
    random, clock = Random(7), Clock()
    uses = UseTimes(clock)
    real: list[float] = []
    for tick in range(1, 200_000):
        clock.now += random.choice((0.001, 0.02, 0.15, 1.0)) if tick % 5000 else 3000.0
        uses.note(tick)
        real.append(clock.now)
        assert len(uses._ticks) <= MOST
    for tick in range(1, 200_000, 37):
        age = clock.now - real[tick - 1]
        assert -1e-6 <= age_of(uses, tick) - age <= STEP + SHARE * age + 1e-6


def test_another_tree_begins_at_tick_0() -> None:
    clock = Clock()
    uses = UseTimes(clock)
    clock.now += 50
    uses.note(1000)
    clock.now += 50
    uses.begin_anew()
    clock.now += 3
    assert age_of(uses, 1) == 3.0
