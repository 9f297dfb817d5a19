"""Histories: a seed gives the cache and what each step does. They run, are replayed and shrunk."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

import rules
from configurations import Configuration, configuration
from world import World

_MOST_STEPS = 1 << 32
MOST_SHRINKING_RUNS = 300
MOST_SHRINKING_SECONDS = 60.0


@dataclass(frozen=True)
class Failure:
    """A run that failed at the last of ``steps``. log: what was called, where it was asked for."""

    seed: int
    made: Configuration
    steps: tuple[int, ...]
    error: Exception
    log: tuple[str, ...]

    @property
    def kind(self) -> str:
        """The same for failures that differ in numbers only."""
        text = re.sub(r"\d+", "#", str(self.error))
        return f"{type(self.error).__name__}: {text[:40]}"

    def __str__(self) -> str:
        return (
            f"seed {self.seed}, step {self.steps[-1]}, {self.made!r}\n"
            + "\n".join(self.log)
            + f"\n{type(self.error).__name__}: {self.error}"
        )


def run(
    seed: int, steps: Iterable[int], made: Configuration | None = None, log: bool = False
) -> Failure | None:
    """Do those steps of the seed's history on a fresh cache, then end all requests.

    Each step has randomness of its own, so that any selection of steps is a history.
    """
    made = configuration(Random(seed)) if made is None else made
    world = World(made)
    world.log = [] if log else None
    rng = Random()
    done: list[int] = []
    try:
        for step in steps:
            done.append(step)
            rng.seed(seed * _MOST_STEPS + step)
            rule = rules.any_rule(rng)
            world.note(f"step {step}: {rule.__name__}")
            rules.step(world, rule, rng)
        world.note("end")
        world.end()
        world.look_at_everything()
        world.verify()
    except Exception as error:
        error.__traceback__ = None if not log else error.__traceback__
        return Failure(seed, made, tuple(done), error, tuple(world.log or ()))
    finally:
        world.close()
    return None


def shrink(failure: Failure) -> Failure:
    """The same kind of failure with as few steps as a simple search finds, and its log."""
    steps: Sequence[int] = failure.steps
    kind, runs, chunk = failure.kind, 0, max(len(steps) // 2, 1)
    limit = time.monotonic() + MOST_SHRINKING_SECONDS

    def more() -> bool:
        return runs < MOST_SHRINKING_RUNS and time.monotonic() < limit

    while more():
        start = 0
        before = len(steps)
        while start < len(steps) and more():
            rest = [*steps[:start], *steps[start + chunk :]]
            found = run(failure.seed, rest, failure.made) if rest else None
            runs += 1
            if found is not None and found.kind == kind:
                steps = found.steps
            else:
                start += chunk
        if chunk == 1 and len(steps) == before:
            break
        chunk = max(chunk // 2, 1)
    again = run(failure.seed, steps, failure.made, log=True)
    return again if again is not None else failure
