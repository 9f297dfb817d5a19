"""What may happen to a cache, as functions of a ``World`` and a source of randomness.

A rule that has nothing to act on does nothing, so any part of a history is a history too.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from random import Random

from contract_values import Prefix, chain, require_equal
from pool_trace import DIRECTIONS
from world import World

import hicache_nsa as hc

Rule = Callable[[World, Random], None]
MOST_HELD = 5
DEEPEST = 6


def some_prefix(world: World, rng: Random, known: list[Prefix] | None = None) -> Prefix:
    """Often one of ``known`` (default: what is cached), a part of it, or something that goes on
    from it.
    """
    known = known or list(world.model.cached)
    if known and rng.random() < 0.8:
        prefix = rng.choice(known)
        prefix = prefix[: rng.randrange(1, len(prefix) + 1)] if rng.random() < 0.4 else prefix
    else:
        prefix = (rng.choice((0, 0, 0, 1, 2)),)
    for _ in range(rng.choice((0, 0, 1, 1, 2, 3))):
        if len(prefix) <= DEEPEST:
            prefix += (rng.choice((0, 0, 1, 2)),)
    return prefix


def match(world: World, rng: Random) -> None:
    found = world.match(some_prefix(world, rng), rng.random() < 0.7, rng.randrange(2))
    world.matches.append(found)
    del world.matches[:-MOST_HELD]


def lock(world: World, rng: Random) -> None:
    if world.matches and len(world.locks) < MOST_HELD:
        world.lock(*rng.choice(world.matches))


def unlock(world: World, rng: Random) -> None:
    if world.locks:
        held = rng.choice(world.locks)
        world.unlock(*held)
        if rng.random() < 0.2:  # twice: refused, or nothing where it is stale
            world.trace.require_explained()
            world.unlock(*held)
        world.locks.remove(held)


def load_back(world: World, rng: Random) -> None:
    if len(world.loads) >= MOST_HELD:
        return
    found = rng.choice(world.matches) if world.matches and rng.random() < 0.3 else None
    if found is None:
        cached = world.model.cached
        on_host = [part for part, entry in cached.items() if entry.device is None]
        prefix = rng.choice(on_host) if on_host else some_prefix(world, rng)
        found = world.match(prefix, rng.random() < 0.7)
    options = {}
    if rng.random() < 0.3 and "max_tokens" in inspect.signature(hc.HiCache.load_back).parameters:
        options["max_tokens"] = rng.randrange(1, 9)
    world.load_back(*found, **options)


def release(world: World, rng: Random) -> None:
    if world.loads:
        held = rng.choice(world.loads)
        world.release(*held, hasattr(hc.LoadBack, "cancel") and rng.random() < 0.4)
        if rng.random() < 0.2:
            world.trace.require_explained()
            world.release(*held)
        world.loads.remove(held)


def insert(world: World, rng: Random) -> None:
    """A request ends, or goes on: with pages of its loads, cached ones and new ones."""
    loaded = world.loaded_pages() if rng.random() < 0.8 else {}
    prefix = some_prefix(world, rng, list(loaded) if rng.random() < 0.6 else None)
    parts = chain(prefix)
    mine = {part: page for page, part in world.stock.items()}
    own = rng.random()
    given: dict[Prefix, int] = {}
    for part in parts:
        entry = world.model.cached.get(part)
        if part in loaded:
            given[part] = loaded[part]
        elif entry is not None and entry.device is not None and rng.random() < own:
            given[part] = entry.device
        elif part in mine and world.model.device_owner[mine[part]].version == world.model.version:
            given[part] = mine[part]
    new = world.allocate(len(parts) - len(given))
    if new is None:
        return
    wrong = False
    for part in parts:
        if part in given:
            wrong = wrong or world.doomed(given[part])
        else:
            given[part] = new.pop()
            world.compute(given[part], part, wrong)
    pages = [given[part] for part in parts] + list(world.stock)[: rng.randrange(2)]
    world.trace.require_explained()
    old = rng.choice(world.locks) if world.locks and rng.random() < 0.4 else None
    world.insert(
        prefix, pages, rng.random() < 0.3 and len(world.locks) < MOST_HELD, old, rng.randrange(2)
    )
    if old is not None and old[1].released:
        world.locks.remove(old)


def bad_insert(world: World, rng: Random) -> None:
    """Pages of anybody, too few of them, or one twice."""
    prefix = some_prefix(world, rng)
    total = world.cache.device_pool.num_pages
    pages = [rng.randrange(total) for _ in range(max(len(prefix) - 1 - rng.randrange(2), 0))]
    if world.model.insert_refused(prefix, pages):
        world.insert(prefix, pages, rng.random() < 0.5)


def stale_insert(world: World, rng: Random) -> None:
    """A page computed with weights that are gone."""
    for page, prefix in world.stock.items():
        if prefix and world.model.device_owner[page].version != world.model.version:
            world.insert(prefix[:2], [page])
            return


def allocate(world: World, rng: Random) -> None:
    count = rng.choice((0, 1, 1, 2, 3, 5, 30))
    pages = world.allocate(count)
    prefix = some_prefix(world, rng)
    for page in pages or ():
        prefix = (prefix if len(prefix) <= DEEPEST else prefix[:1]) + (rng.randrange(2),)
        world.compute(page, prefix)


def free(world: World, rng: Random) -> None:
    pages = [page for page in world.stock if rng.random() < 0.6]
    world.free(pages)


def bad_free(world: World, rng: Random) -> None:
    pages = [page for page in world.stock if rng.random() < 0.5]
    pages.append(rng.randrange(world.cache.device_pool.num_pages))
    if world.model.free_refused(pages):
        world.free(pages)


def evict_device(world: World, rng: Random) -> None:
    world.evict("device", rng.choice((0, 1, 2, 3, 5, 9, 40)))


def evict_host(world: World, rng: Random) -> None:
    world.evict("host", rng.choice((0, 1, 2, 3, 5, 9, 60)))


def hold_or_open(world: World, rng: Random) -> None:
    """Copies stay in flight from now on; or they end, and some call takes them in."""
    direction = rng.choice(DIRECTIONS)
    if not world.held(direction):
        if rng.random() < 0.4:
            world.hold(direction)
        return
    world.open(direction)
    world.wait()
    how = rng.choice(("poll", "limit", "stats", "evict"))
    if how == "poll" or world.model.polled:
        world.poll()
    elif how == "limit":
        world.poll(1)
    elif how == "stats":
        world.cache.stats()
        world.model.poll()
    else:
        require_equal("evict_device(0)", world.cache.evict_device(0), 0)
        world.model.poll()


def poll(world: World, rng: Random) -> None:
    world.poll(rng.choice((None, 0, 1, 1, 2)))


def fail_save(world: World, rng: Random) -> None:
    if world.trace.failures["d2h"] < 2:
        world.fail_next("d2h", rng.randrange(4))


def fail_load(world: World, rng: Random) -> None:
    if world.trace.failures["h2d"] < 2:
        world.fail_next("h2d", rng.randrange(4))


def drain(world: World, rng: Random) -> None:
    world.flush("drain")


def reset(world: World, rng: Random) -> None:
    world.flush("reset")


def clear(world: World, rng: Random) -> None:
    world.flush("clear")


def invalidate(world: World, rng: Random) -> None:
    world.flush("invalidate")


def end(world: World, rng: Random) -> None:
    world.end()


def look(world: World, rng: Random) -> None:
    world.look_at_everything()


RULES: dict[Rule, int] = {
    match: 120,
    lock: 60,
    unlock: 90,
    load_back: 250,
    release: 110,
    insert: 400,
    bad_insert: 20,
    stale_insert: 4,
    allocate: 15,
    free: 80,
    bad_free: 15,
    evict_device: 120,
    evict_host: 40,
    hold_or_open: 80,
    poll: 60,
    fail_save: 8,
    fail_load: 6,
    drain: 8,
    reset: 20,
    clear: 2,
    invalidate: 3,
    end: 4,
    look: 10,
}

_LIST = list(RULES)
_CUMULATED = list(itertools.accumulate(RULES.values()))


def any_rule(rng: Random) -> Rule:
    """One of ``RULES``, by their weights."""
    return rng.choices(_LIST, cum_weights=_CUMULATED)[0]


def step(world: World, rule: Rule, rng: Random) -> None:
    """Time goes on; one rule, what follows from it, and a look at everything."""
    world.now += rng.choice((0.0, 0.0, 0.25, 0.25, 4.0, 100.0))
    rule(world, rng)
    world.settle()
    world.verify()
