"""The long run: the rules of the model, seed after seed, each on a fresh cache.

``python tests/model/drive.py --steps 5000000 --resume progress.json`` goes on where it was stopped.
``--replay SEED --until STEP`` prints what a seed does. Exit 1 at the first failure, with its seed,
its step and the shortest history of the same failure that a simple search finds.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import click
from history import Failure, run, shrink


@dataclass
class Progress:
    """seed: the first one. seeds, steps, seconds: done so far."""

    seed: int
    steps_a_seed: int
    seeds: int = 0
    steps: int = 0
    seconds: float = 0.0

    def save(self, path: Path | None) -> None:
        if path is not None:
            new = path.with_name(path.name + ".new")
            new.write_text(json.dumps(asdict(self)) + "\n")
            new.replace(path)


def load_progress(path: Path, seed: int, steps_a_seed: int) -> Progress:
    """What ``path`` holds; it must be of the same seed and length of runs."""
    if not path.exists():
        return Progress(seed, steps_a_seed)
    known = json.loads(path.read_text())
    progress = Progress(**{field.name: known[field.name] for field in fields(Progress)})
    if (progress.seed, progress.steps_a_seed) != (seed, steps_a_seed):
        raise click.UsageError(
            f"{path} is of --seed {progress.seed} --steps-a-seed {progress.steps_a_seed}, "
            f"not {seed} and {steps_a_seed}: name another file, or these"
        )
    return progress


def drive(progress: Progress, steps: int, seconds: float | None, path: Path | None) -> int | None:
    """Run seeds until there are ``steps`` in all or the time is over; the seed that failed."""
    begun, shown = time.monotonic(), 0.0
    before = progress.seconds
    while progress.steps < steps:
        spent = time.monotonic() - begun
        progress.seconds = before + spent
        progress.save(path)
        if seconds is not None and spent >= seconds:
            break
        if spent - shown >= 10:
            shown = spent
            click.echo(_line(progress), err=True)
        seed = progress.seed + progress.seeds
        if run(seed, range(progress.steps_a_seed)) is not None:
            return seed
        progress.seeds += 1
        progress.steps += progress.steps_a_seed
    progress.seconds = before + time.monotonic() - begun
    progress.save(path)
    return None


def _line(progress: Progress) -> str:
    rate = progress.steps / progress.seconds if progress.seconds else 0.0
    last = progress.seed + progress.seeds - 1
    return (
        f"{progress.steps:,} steps, seeds {progress.seed} to {last}, "
        f"{progress.seconds:,.0f} s, {rate:,.0f} steps a second"
    )


def report(failure: Failure | None, seed: int) -> None:
    if failure is None:
        click.echo(f"seed {seed}: nothing is wrong")
        return
    click.echo(str(failure))
    until = failure.steps[-1]
    click.echo(f"replay: python tests/model/drive.py --replay {seed} --until {until}")


@click.command(help=__doc__)
@click.option("--seed", default=0, show_default=True, help="The first seed.")
@click.option("--steps", default=200_000, show_default=True, help="Steps in all.")
@click.option("--steps-a-seed", default=2_000, show_default=True, help="Steps on each cache.")
@click.option("--minutes", type=float, help="Stop after so long, between two seeds.")
@click.option("--resume", type=click.Path(path_type=Path), help="Progress is kept in this file.")
@click.option("--replay", type=int, help="Print what this seed does, call by call.")
@click.option("--until", type=int, help="The last step of --replay.")
def main(
    seed: int,
    steps: int,
    steps_a_seed: int,
    minutes: float | None,
    resume: Path | None,
    replay: int | None,
    until: int | None,
) -> None:
    if replay is not None:
        last = steps_a_seed if until is None else until + 1
        failure = run(replay, range(last), log=True)
        report(failure, replay)
        sys.exit(failure is not None)
    progress = (
        Progress(seed, steps_a_seed)
        if resume is None
        else load_progress(resume, seed, steps_a_seed)
    )
    failed = drive(progress, steps, None if minutes is None else minutes * 60, resume)
    click.echo(_line(progress))
    if failed is not None:
        failure = run(failed, range(steps_a_seed))
        report(shrink(failure) if failure is not None else None, failed)
        sys.exit(1)


if __name__ == "__main__":
    main()
