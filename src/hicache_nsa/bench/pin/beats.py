"""Python threads that show how long others were kept from going on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

BEAT_SECONDS = 0.001
LAUNCH_PAUSE_SECONDS = 0.0005


class Beats:
    """A thread that does ``work`` and rests, again and again. Use as a context manager.

    A gap is the time from one end of ``work`` to the next, the rest included.
    """

    def __init__(self, work: Callable[[], None], rest: float) -> None:
        self._work = work
        self._rest = rest
        self._end = threading.Event()
        self._longest = 0.0
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def longest(self) -> float:
        """Seconds of the longest gap since the last call, or since the start."""
        if self._error is not None:
            raise self._error
        longest, self._longest = self._longest, 0.0
        return longest

    def __enter__(self) -> Beats:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            last = time.perf_counter()
            while not self._end.is_set():
                time.sleep(self._rest)
                self._work()
                now = time.perf_counter()
                self._longest = max(self._longest, now - last)
                last = now
        except Exception as error:  # shown by whoever asks for the gaps
            self._error = error


def heartbeat() -> Beats:
    """Does nothing every millisecond."""
    return Beats(lambda: None, BEAT_SECONDS)


def launches(device: str) -> Beats:
    """Queues a tiny operation of torch on ``device``."""
    import torch

    stream = torch.cuda.Stream(device)
    numbers = torch.zeros(16, device=device)
    torch.cuda.synchronize(device)

    def launch() -> None:
        with torch.cuda.stream(stream):
            numbers.add_(1)

    launch()  # loads the kernel
    return Beats(launch, LAUNCH_PAUSE_SECONDS)
