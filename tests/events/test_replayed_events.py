"""A replay of the events rebuilds the set of cached pages, tier by tier, after every operation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from configurations import ACKS, WRITE_POLICIES, Configuration, configuration
from consumer import Consumer, cached
from followed import Followed
from kept_cache import KeptCache
from test_random_invalidate import Impatient

from hicache_nsa.cache import Cleared

STEPS = 300
SEEDS = 3


def made(seed: int, write_policy: str, acks: str) -> Configuration:
    return configuration(Random(seed), write_policy=write_policy, acks=acks)


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("acks", ACKS)
@pytest.mark.parametrize("write_policy", WRITE_POLICIES)
def test_after_every_step_of_a_history(write_policy: str, acks: str, seed: int) -> None:
    followed = Followed(made(seed, write_policy, acks))
    followed.run(seed, STEPS)
    assert followed.taken > 30


@pytest.mark.parametrize("write_policy", WRITE_POLICIES)
def test_whoever_comes_late_hears_what_is_cached(write_policy: str) -> None:
    for seed in range(10, 14):
        followed = Followed(made(seed, write_policy, "auto"), start=STEPS // 2)
        followed.run(seed, STEPS)


@pytest.mark.parametrize("capacity", [1, 2, 5, 8])
def test_what_does_not_fit_is_told_anew(capacity: int) -> None:
    for seed in range(20, 24):
        followed = Followed(made(seed, "write_through", "auto"), every=20, capacity=capacity)
        followed.run(seed, STEPS)
        assert followed.log.overflows > 0


@dataclass(frozen=True)
class InFile(Configuration):
    """The host pool is kept in a file."""

    file: Path = Path()

    def options(self) -> dict[str, Any]:
        return {**super().options(), "host_file": self.file}


@pytest.mark.parametrize("write_policy", WRITE_POLICIES)
def test_with_a_host_file(write_policy: str, memory_folder: Path) -> None:
    for seed in range(30, 33):
        found = made(seed, write_policy, "auto")
        found = replace(found, host_pages=found.host_pages or 8)
        Followed(InFile(**vars(found), file=memory_folder / str(seed))).run(seed, STEPS)


def test_what_an_earlier_process_left_is_told_first(memory_folder: Path) -> None:
    with KeptCache(memory_folder / "pool") as kept:
        log = kept.cache.record_events()
        kept.save(range(40))
        kept.save([*range(20), *range(50, 70)], "key")
        consumer = Consumer()
        consumer.apply(log.take())
        before = consumer.sets["host"]
    with KeptCache(memory_folder / "pool") as kept:
        consumer.apply([Cleared(), *kept.cache.record_events().take()])
        assert consumer.sets == {"device": {}, "host": before} == cached(kept.cache)
        assert len(before) == 20


class Heard(Impatient):
    """Follows the events through invalidates that come while copies are in flight."""

    def hear(self) -> None:
        self.consumer.apply(self.log.take())
        assert self.consumer.sets == cached(self.cache)

    def flush(self) -> None:
        super().flush()
        self.hear()


@pytest.mark.parametrize("policy", ["write_through", "write_back"])
@pytest.mark.parametrize("acks", ACKS)
def test_invalidates_with_copies_in_flight(acks: str, policy: str) -> None:
    for seed in range(3):
        engine = Heard(seed, device_pages=24, host_pages=40, acks=acks, write_policy=policy)
        engine.log, engine.consumer = engine.cache.record_events(), Consumer()
        for _ in range(300):
            engine.step()
            engine.hear()
            if engine.rng.random() < 0.05:
                engine.flush()
        engine.hear()
        engine.end()


@pytest.mark.parametrize("write_policy", WRITE_POLICIES)
def test_ranks_that_do_the_same_tell_the_same(write_policy: str) -> None:
    """Page ids, copies and addresses differ between processes; events do not."""

    def told(seed: int) -> list[Any]:
        heard: list[Any] = []
        followed = Followed(made(seed, write_policy, "poll"))
        apply = followed.consumer.apply
        followed.consumer.apply = lambda events: (heard.append(events), apply(events))
        followed.run(seed, STEPS)
        return heard

    for seed in range(40, 43):
        first, second = told(seed), told(seed)
        assert first == second and len(first) > STEPS
