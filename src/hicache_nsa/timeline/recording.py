"""``Timeline``: start and stop the recording, add spans of one's own, write what is there."""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from hicache_nsa import _core
from hicache_nsa.errors import HiCacheError
from hicache_nsa.formats.checks import count_of, one_of
from hicache_nsa.timeline.trace_events import trace_events

TRACKS = ("scheduler", "compute", "waits", "h2d", "d2h")
DEFAULT_SPANS = 65536
MOST_SPANS = 2**24
LATEST = 2**63 - 1  # nanoseconds
Result = TypeVar("Result")


class Informant(Protocol):
    """Tells the timeline of calls: ``recorder`` is None while there is nobody to tell."""

    recorder: _core.Timeline | None


class Timeline:
    """The recording of one engine, or of a cache and its engine. Off until ``start``.

    Any thread may use it. It stays after its engine is closed, with what was recorded. In a forked
    child nothing is recorded; reading raises ``HiCacheError`` there.
    """

    def __init__(self, native: _core.Timeline) -> None:
        self._native = native
        self._informants: weakref.WeakSet[Informant] = weakref.WeakSet()

    @property
    def on(self) -> bool:
        """Whether spans are recorded."""
        return self._native.on

    @property
    def dropped(self) -> int:
        """Spans since ``start`` that newer ones took the place of."""
        return self._read(lambda: self._native.dropped)

    def start(self, capacity: int = DEFAULT_SPANS) -> None:
        """Forget what was recorded, and record from now on: the last ``capacity`` spans.

        A span takes about 140 bytes of memory, as they come.

        Raises:
            ValueError: capacity is not 1 to 2**24. What was recorded before stays.
        """
        count = count_of(capacity, "capacity", least=1, most=MOST_SPANS)
        self._read(lambda: self._native.start(count))
        self._tell_all()

    def stop(self) -> None:
        """Record no more. What was recorded stays. Idempotent."""
        self._native.stop()
        self._tell_all()

    @contextmanager
    def span(self, name: str, track: str = "compute") -> Iterator[None]:
        """Record the body as a span of the calling thread, and as an NVTX range.

        For work of one's own, so that it stands beside the copies. On a GPU a body that only
        queues work ends when that is queued: ``add`` takes times that were measured.

        Raises:
            ValueError: no such track (see ``TRACKS``), before the body runs.
            TypeError: the name is no string.
        """
        one_of(track, "track", TRACKS)
        begin = self._native.begin_call(_checked(name))
        try:
            yield
        finally:
            self._native.end_call(track, name, begin)

    def add(self, name: str, begin: int, end: int, track: str = "compute") -> None:
        """Record a span measured elsewhere; times in nanoseconds of ``time.monotonic_ns()``.

        Raises:
            ValueError: no such track, a time below 0 or above 2**63 - 1, or an end before the
                beginning.
            TypeError: the name is no string, or a time no int.
        """
        one_of(track, "track", TRACKS)
        first, last = (
            count_of(time, which, most=LATEST) for which, time in (("begin", begin), ("end", end))
        )
        if last < first:
            raise ValueError(f"the span {name!r} ends at {last} ns, before it begins at {first} ns")
        self._native.add(track, _checked(name), first, last)

    def spans(self) -> list[_core.TimelineSpan]:
        """What is there, in the order in which it ended."""
        return self._read(self._native.spans)

    def trace_events(self) -> list[dict[str, Any]]:
        """What is there as events of the Trace Event Format, see ``hicache_nsa.timeline``."""
        return trace_events(self.spans(), os.getpid())

    def write(
        self, path: str | os.PathLike[str], about: Mapping[str, object] | None = None
    ) -> None:
        """Write what is there as JSON that Perfetto (ui.perfetto.dev) and Chrome read.

        about: what else the file says of itself (in ``otherData``): strings and numbers.

        Raises:
            ValueError, TypeError: something in ``about`` is no JSON; no file is touched.
            OSError: the file can't be written; a part of it may be there.
        """
        dropped = self.dropped
        document = {
            "traceEvents": self.trace_events(),
            "displayTimeUnit": "ms",
            "otherData": {**(about or {}), "made_by": "hicache-nsa", "dropped_spans": dropped},
        }
        text = json.dumps(document, allow_nan=False)
        try:
            Path(path).write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            error.filename = error.filename or os.fspath(path)  # a full disk does not say which
            raise

    def enlist(self, informant: Informant) -> None:
        """Keep ``informant.recorder`` up to date from now on."""
        self._informants.add(informant)
        self._tell(informant)

    def _recorder(self) -> _core.Timeline | None:
        return self._native if self._native.on or _core.nvtx_attached() else None

    def _tell_all(self) -> None:
        for informant in list(self._informants):
            self._tell(informant)

    def _tell(self, informant: Informant) -> None:
        # Looks again: another thread may have started or stopped meanwhile, and told it before.
        while informant.recorder is not self._recorder():
            informant.recorder = self._recorder()

    def _read(self, call: Callable[[], Result]) -> Result:
        """The call, with the error of a forked child as ``HiCacheError``."""
        try:
            return call()
        except RuntimeError as error:
            raise HiCacheError(str(error)) from error


def _checked(name: Any) -> str:
    """``name`` if it is text; half of a surrogate pair is a ``UnicodeEncodeError``."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a span must be a string, got {type(name).__name__}")
    name.encode()
    return name
