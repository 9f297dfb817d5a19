"""F51: whether other Python threads run on."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def heartbeat(limit: float) -> Iterator[list[float]]:
    """Another Python thread beats every 10 ms; its longest gap stays under ``limit`` seconds."""
    stop, gaps = threading.Event(), [0.0]

    def beat() -> None:
        last = time.perf_counter()
        while not stop.wait(0.01):
            now = time.perf_counter()
            gaps.append(now - last)
            last = now

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield gaps
    finally:
        stop.set()
        thread.join()
    assert max(gaps) < limit, f"another thread stood still for {max(gaps):.3f} s"
