"""Random histories: after every operation the exported series add up, and say what there is.

The counters are held against the model of tests/model, which counts by itself; the gauges against a
walk over nodes, page owners and copies.
"""

from __future__ import annotations

from random import Random

import pytest
import rules
from configurations import Configuration, configuration, policies
from contract_values import Load
from engine import Engine
from scrape import Scrape
from sums import Watch
from test_random_invalidate import Impatient
from test_verify_random import SpoilingEngine
from world import World

from hicache_nsa import OutOfPages

STEPS = 120
PLAIN_COUNTERS = {
    "requested_tokens": "requested_tokens",
    "found_host_tokens": "found_host_tokens",
    "duplicate_tokens": "duplicate_tokens",
    "loaded_tokens": "load_back_tokens",
    "saved_tokens": "saved_tokens",
    "joined_loads": "joined_loads",
    "declined_loads": "declined_loads",
    "cancelled_loads": "cancelled_loads",
}
LABELLED = {
    ("tokens", "source", "computed"): "inserted_tokens",
    ("tokens", "source", "device"): "matched_device_tokens",
    ("tokens", "source", "host"): "matched_host_tokens",
    ("missed_tokens", "reason", "cold"): "missed_cold_tokens",
    ("missed_tokens", "reason", "evicted"): "missed_evicted_tokens",
    ("missed_tokens", "reason", "flushed"): "missed_flushed_tokens",
    ("missed_tokens", "reason", "failed"): "missed_failed_tokens",
    ("missed_tokens", "reason", "partial"): "missed_partial_tokens",
    ("dropped_tokens", "reason", "evicted"): "dropped_evicted_tokens",
    ("dropped_tokens", "reason", "flushed"): "dropped_flushed_tokens",
    ("dropped_tokens", "reason", "failed"): "dropped_failed_tokens",
    ("evicted_tokens", "tier", "device"): "evicted_device_tokens",
    ("evicted_tokens", "tier", "host"): "evicted_host_tokens",
}


class CopyCount:
    """Every copy that is submitted, by direction: how they ended."""

    def __init__(self, world: World) -> None:
        self.tickets: dict[str, list] = {"h2d": [], "d2h": []}
        submit = world.cache.engine.submit

        def counted(direction, *args, **options):
            ticket = submit(direction, *args, **options)
            self.tickets[direction].append(ticket)
            return ticket

        world.cache.engine.submit = counted

    def ended(self, direction: str, failed: bool) -> int:
        return sum(t.done() and (t.error is not None) == failed for t in self.tickets[direction])


def require_model(world: World, copies: CopyCount, s: Scrape) -> None:
    counters = world.model.counters
    for name, counter in PLAIN_COUNTERS.items():
        assert s[f"{name}_total"] == counters[counter], name
    for (name, label, value), counter in LABELLED.items():
        assert s.value(f"{name}_total", **{label: value}) == counters[counter], (name, value)
    if not world.model.demotes:  # else which pages were wanted is the cache's choice
        assert s["refused_save_tokens_total"] == counters["refused_save_tokens"]
    for direction in ("h2d", "d2h"):
        for result, failed in (("ok", False), ("failed", True)):
            ended = copies.ended(direction, failed)
            assert s.value("copies_total", direction=direction, result=result) == ended
    loads = sum(isinstance(copy, Load) for copy in world.model.copies)
    assert s.value("copies_in_flight", direction="h2d") == loads
    assert s.value("copies_in_flight", direction="d2h") == len(world.model.copies) - loads


def follow(made: Configuration, seed: int, steps: int = STEPS) -> Scrape:
    """One history; the last scrape."""
    world = World(made)
    try:
        copies, rng = CopyCount(world), Random(seed)
        watch = Watch(world.cache, made.reserved)
        for _ in range(steps):
            rules.step(world, rules.any_rule(rng), rng)
            require_model(world, copies, watch.look())
        world.end()
        last = watch.look()
        require_model(world, copies, last)
        return last
    finally:
        world.close()


KINDS = [(*pair, acks) for pair in policies() for acks in ("auto", "poll")]


@pytest.mark.parametrize(("write_policy", "eviction_policy", "acks"), KINDS)
def test_histories_of_the_model(write_policy: str, eviction_policy: str, acks: str) -> None:
    made = configuration(
        Random(f"{write_policy}{eviction_policy}"),
        write_policy=write_policy,
        eviction_policy=eviction_policy,
        acks=acks,
    )
    follow(made, seed=KINDS.index((write_policy, eviction_policy, acks)))


def test_histories_see_everything() -> None:
    """So that no equation above holds only because both sides stay 0."""
    wanted = {(f"{name}_total", label, value) for name, label, value in LABELLED}
    wanted |= {(f"{name}_total", "", "") for name in (*PLAIN_COUNTERS, "refused_save_tokens")}
    wanted |= {("copies_total", "result", result) for result in ("ok", "failed")}
    for seed in range(7, 30):
        found = follow(Configuration(device_pages=8, host_pages=6), seed, steps=700)
        for name, label, value in list(wanted):
            if found.sum(name, **({label: value} if label else {})) > 0:
                wanted.remove((name, label, value))
        if not wanted:
            return
    raise AssertionError(f"never seen: {sorted(wanted)}")


def watched(engine: Engine, steps: int) -> tuple[Watch, dict[str, float]]:
    """Steps of an engine, a look behind each; what each gauge was at most."""
    watch, most = Watch(engine.cache), {}
    for _ in range(steps):
        engine.step()
        now = watch.look()
        for (name, labels), value in now.values.items():
            key = name, *sorted(labels)
            most[key] = max(most.get(key, 0.0), value)
    return watch, most


class PinningEngine(Impatient):
    """Copies in flight when the cache is invalidated, and pins."""

    def more_steps(self):
        return {self.pin: 6}

    def pin(self) -> None:
        tokens, namespace = self.some_tokens()
        match = self.match(tokens, namespace)
        try:
            self.cache.pin(match, seconds=0.003 if self.rng.random() < 0.5 else 60)
        except OutOfPages:
            return


@pytest.mark.parametrize("seed", range(6))
def test_pins_and_copies_that_an_invalidate_makes_void(seed: int) -> None:
    policy = ("write_through", "write_back")[seed % 2]
    acks = ("auto", "poll")[seed // 2 % 2]
    engine = PinningEngine(seed, device_pages=24, host_pages=40, acks=acks, write_policy=policy)
    watch, most = watched(engine, 300)
    assert most["hicache_pinned_pages", ("tier", "device")] > 0
    engine.open_holds()
    for request in list(engine.requests):
        engine.close_request(request)
    assert engine.cache.drain(30)
    watch.look()
    engine.cache.close()


@pytest.mark.parametrize("seed", range(2))
def test_pages_that_go_wrong(seed: int) -> None:
    engine = SpoilingEngine(seed, device_pages=24, host_pages=40)
    watch, _ = watched(engine, 250)
    stats = engine.cache.stats()
    assert watch.last["verified_pages_total"] == stats.verified_pages > 0
    assert watch.last["corrupt_pages_total"] == stats.corrupt_pages > 0
    engine.end()
