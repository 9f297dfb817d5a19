"""kill -9 at random instants: the long run of caches with a host file.

``python tests/restart/drive.py --kills 500 --resume progress.json`` goes on where it was stopped.
A *life* is one file: process after process attaches to it, compares what it finds with what the one
before had been told was saved, works at random and reports each call, and is killed in the middle.
Exit 1 at the first failure, with the number of the life.
"""

from __future__ import annotations

import json
import os
import pickle
import random
import select
import signal
import struct
import sys
import tempfile
import time
import traceback
import warnings
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import click

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "cache")]

from kill_model import Known  # noqa: E402
from killed_engine import KilledEngine, Pipe, life_options, process_options  # noqa: E402
from mutants import MUTANTS  # noqa: E402

PROCESSES = 25  # of a life
LONGEST = 0.06  # seconds until a process is killed
ENDS = ("call", "kill", "close", "exit")
"""Killed in a call, or by the driver at any time; an end in good order, or without ``close()``."""


@dataclass
class Progress:
    """seed: of the first life. lives, kills, ends, seconds: done so far, in all."""

    seed: int
    lives: int = 0
    kills: int = 0
    ends: int = 0
    seconds: float = 0.0
    killed_while_starting: int = 0
    killed_in_a_call: int = 0

    def save(self, path: Path | None) -> None:
        if path is not None:
            new = path.with_name(path.name + ".new")
            new.write_text(json.dumps(asdict(self)) + "\n")
            new.replace(path)


class Failed(Exception):
    """A process found something that can't be."""


class Process:
    """A child that attaches to ``file`` and works until it is killed, or comes to its end."""

    def __init__(
        self, file: str, seed: int, known: Known, options: dict[str, Any], end: str
    ) -> None:
        self.end = end
        reading, writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(reading)
            _work(Pipe(writing), file, seed, known, options, end)
        os.close(writing)
        self.reading = reading
        self.heard = bytearray()
        self.attached = False

    def run(self, known: Known, seconds: float) -> bool:
        """Hear it out until it is to be killed; True if it was."""
        deadline = time.monotonic() + (seconds if self.end == "kill" else 60.0)
        killed = False
        while True:
            left = deadline - time.monotonic()
            if left <= 0 and not killed:
                os.kill(self.pid, signal.SIGKILL)
                killed = True
            ready, _, _ = select.select([self.reading], [], [], max(left, 0.0) if not killed else 5)
            if not ready:
                continue
            data = os.read(self.reading, 1 << 16)
            if not data:
                break
            self.heard += data
            self._take(known)
        os.close(self.reading)
        status = os.waitpid(self.pid, 0)[1]
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            return True
        if status != 0:
            raise Failed(f"the process ended with status {status}")
        return False

    def _take(self, known: Known) -> None:
        while len(self.heard) >= 4:
            (size,) = struct.unpack_from("<I", self.heard)
            if len(self.heard) < 4 + size:
                return
            kind, *said = pickle.loads(bytes(self.heard[4 : 4 + size]))
            del self.heard[: 4 + size]
            if kind == "failed":
                raise Failed(said[0])
            self.attached |= kind == "attached"
            getattr(known, kind)(*said)


def _work(
    pipe: Pipe, file: str, seed: int, known: Known, options: dict[str, Any], end: str
) -> None:
    try:
        warnings.simplefilter("error")  # nothing is ever set aside or damaged
        checked = "mutant" not in options
        if not checked:
            MUTANTS[options.pop("mutant")]()
        last_call = random.Random(seed).randrange(40) if end == "call" else None
        engine = KilledEngine(seed, known, pipe, checked, last_call, host_file=file, **options)
        steps = 0
        while end in ("kill", "call") or steps < engine.rng.randrange(60):
            engine.step()
            steps += 1
        if end == "close":
            engine.open_holds()
            engine.cache.close()
        os._exit(0)
    except BaseException:
        pipe.send("failed", traceback.format_exc())
        os._exit(1)


def live(number: int, folder: Path, progress: Progress, mutant: str | None) -> None:
    """One file, until PROCESSES processes have used it."""
    rng = random.Random(number)
    file = folder / f"life-{number}"
    known = Known()
    fixed = life_options(rng)
    before = sorted(folder.iterdir())
    for _ in range(PROCESSES):
        options = {**fixed, **process_options(rng)}
        if mutant is not None:
            options["mutant"] = mutant
        end = rng.choices(ENDS, [12, 6, 2, 1])[0]
        process = Process(str(file), rng.randrange(1 << 30), known, options, end)
        if process.run(known, rng.random() * LONGEST):
            progress.kills += 1
            progress.killed_while_starting += not process.attached
            progress.killed_in_a_call += process.attached and known.call not in ("idle", "step")
        else:
            progress.ends += 1
    file.unlink(missing_ok=True)
    if sorted(folder.iterdir()) != before:
        raise Failed(f"files left behind: {sorted(folder.iterdir())}")
    progress.lives += 1


def drive(progress: Progress, kills: int, path: Path | None, mutant: str | None) -> str | None:
    """Lives until there were so many kills in all; what went wrong, None if nothing did."""
    begun, before = time.monotonic(), progress.seconds
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="hicache-kills-") as folder:
        while progress.kills < kills:
            number = progress.seed + progress.lives
            try:
                live(number, Path(folder), progress, mutant)
            except Failed as failure:
                return f"life {number}: {failure}"
            progress.seconds = before + time.monotonic() - begun
            progress.save(path)
    return None


@click.command(help=__doc__)
@click.option("--kills", default=500, show_default=True, help="In all, also of earlier runs.")
@click.option("--seed", default=0, show_default=True)
@click.option("--resume", type=click.Path(path_type=Path), default=None, help="Kept after a life.")
@click.option("--mutant", type=click.Choice(sorted(MUTANTS)), default=None, help="Break the cache.")
def main(kills: int, seed: int, resume: Path | None, mutant: str | None) -> None:
    progress = Progress(seed)
    if resume is not None and resume.exists():
        kept = json.loads(resume.read_text())
        progress = Progress(**{field.name: kept[field.name] for field in fields(Progress)})
    failure = drive(progress, kills, resume, mutant)
    click.echo(
        f"{progress.kills} kills ({progress.killed_in_a_call} in the middle of a call, "
        f"{progress.killed_while_starting} before the process had attached), {progress.ends} other "
        f"ends, {progress.lives} files, {progress.seconds:.0f} s"
    )
    if failure is not None:
        click.echo(failure, err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
