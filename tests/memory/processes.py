"""Starts ``child.py`` and talks to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class Child:
    """One running scenario."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        environ = {k: v for k, v in os.environ.items() if k != "LOCAL_WORLD_SIZE"}
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("child.py")), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"} | environment,
        )

    def hear(self) -> dict[str, Any]:
        """Its next line."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"it ended with {self.process.wait()}"
        facts: dict[str, Any] = json.loads(line)
        return facts

    def say(self, text: object = "") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{text}\n")
        self.process.stdin.flush()

    def end(self) -> int:
        """Its exit status, once it has ended by itself."""
        return self.process.wait(60)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()


@contextmanager
def child(*arguments: str, **environment: str) -> Iterator[Child]:
    """A child that is gone at the end, whatever happened."""
    started = Child(*arguments, **environment)
    try:
        yield started
    finally:
        started.kill()
