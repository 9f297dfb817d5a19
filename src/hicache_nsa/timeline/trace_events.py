"""Spans as events of the Trace Event Format, which Perfetto and Chrome read. Pure.

Every span is a complete event (``"ph": "X"``) with ``ts`` and ``dur`` in microseconds since the
first span. Each row is a thread of the file with a name and a place in the order: the scheduler's
threads, compute, the threads and streams that waited, then a direction's copies and, on a row of
their own, the times they were queued before that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from hicache_nsa._core import TimelineSpan
from hicache_nsa.timeline.rows import nested_rows

_TITLES = {
    "scheduler": "scheduler",
    "compute": "compute",
    "waits": "waits",
    "h2d": "H2D",
    "d2h": "D2H",
}
_PLACES = {track: place for place, track in enumerate(_TITLES)}
_SAME_WAIT_NS = 1_000_000  # a thread that waits looks for signals now and then: that is one wait


@dataclass
class _Drawn:
    """One event to be: what it says, and when."""

    name: str
    begin: int
    end: int
    args: dict[str, Any]
    parts: list[_Drawn]

    @property
    def times(self) -> tuple[int, int]:
        """(begin, end) of it and its parts, nanoseconds."""
        every = [self, *self.parts]
        return min(each.begin for each in every), max(each.end for each in every)


def trace_events(spans: Sequence[TimelineSpan], pid: int = 1) -> list[dict[str, Any]]:
    """The events of ``spans``: names of the process and its rows first, then the spans."""
    origin = min((span.begin for span in spans), default=0)
    events: list[dict[str, Any]] = [_metadata("process_name", pid, 0, {"name": "hicache"})]
    drawn: list[dict[str, Any]] = []
    for tid, (title, row) in enumerate(_rows(spans), start=1):
        events.append(_metadata("thread_name", pid, tid, {"name": title}))
        events.append(_metadata("thread_sort_index", pid, tid, {"sort_index": tid}))
        for item in row:
            drawn += [_event(each, pid, tid, title, origin) for each in (item, *item.parts)]
    return events + drawn


def _metadata(name: str, pid: int, tid: int, args: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "name": name, "pid": pid, "tid": tid, "args": args}


def _event(drawn: _Drawn, pid: int, tid: int, title: str, origin: int) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": drawn.name,
        "cat": title.split(",")[0],
        "pid": pid,
        "tid": tid,
        "ts": _microseconds(drawn.begin - origin),
        "dur": _microseconds(drawn.end - drawn.begin),
        "args": drawn.args,
    }


def _microseconds(nanoseconds: int) -> float:
    """As a float of which 1000 times is those nanoseconds, rounded or cut off.

    Some versions of Perfetto cut off, and drop a slice that overlaps another one by a nanosecond.
    """
    value = nanoseconds / 1000
    return value if int(value * 1000) == nanoseconds else math.nextafter(value, math.inf)


def _rows(spans: Sequence[TimelineSpan]) -> Iterable[tuple[str, list[_Drawn]]]:
    """(title, what is on it) of every row, in their order."""
    for group, members in groupby(sorted(spans, key=_group), key=_group):
        of_group = list(members)
        kind = of_group[0].kind
        if kind in ("copy", "layers"):
            rows = nested_rows(_copies(of_group), lambda item: item.times, nest=False)
        elif kind == "queued":
            rows = nested_rows([_drawn(each) for each in of_group], lambda i: i.times, nest=False)
        else:
            rows = nested_rows(_waits_joined(of_group), lambda item: item.times)
        for number, row in enumerate(rows, start=1):
            yield _title(group, number), row


def _group(span: TimelineSpan) -> tuple[int, str, int]:
    """What shares rows: (place of the track, who, number of who)."""
    place = _PLACES[span.track]
    if span.kind in ("copy", "layers"):
        return place, "", 0
    if span.kind == "queued":
        return place, "queued", 0
    if span.stream is not None:
        return place, "stream", span.stream
    if span.thread >= 0:
        return place, "thread", span.thread
    return place, "added" if span.track in ("h2d", "d2h") else "", 0


def _title(group: tuple[int, str, int], number: int) -> str:
    place, who, which = group
    title = list(_TITLES.values())[place]
    if who in ("queued", "added"):
        title += f", {who}"
    elif who:
        title += f", {who} {which}"
    return title if number == 1 else f"{title}, row {number}"


def _copies(spans: Sequence[TimelineSpan]) -> list[_Drawn]:
    """The copies with what landed of them; what landed of one that has not ended stands alone."""
    parts: dict[int, list[_Drawn]] = {}
    copies: dict[int, _Drawn] = {}
    for span in spans:
        if span.kind == "layers":
            parts.setdefault(span.copy, []).append(_drawn(span))
        else:
            copies[span.copy] = _drawn(span)
    found = list(copies.values())
    for number, landed in parts.items():
        if number in copies:
            copies[number].parts += landed
        else:
            found += landed
    return found


def _waits_joined(spans: Sequence[TimelineSpan]) -> list[_Drawn]:
    """The spans of one thread or stream, with waits for the same layer made one."""
    found: list[_Drawn] = []
    last: TimelineSpan | None = None
    for span in spans:
        same = (
            last is not None
            and span.kind == last.kind == "wait"
            and (span.copy, span.first_layer) == (last.copy, last.first_layer)
            and 0 <= span.begin - last.end < _SAME_WAIT_NS
        )
        if same:
            found[-1].end = span.end
        else:
            found.append(_drawn(span))
        last = span
    return found


def _drawn(span: TimelineSpan) -> _Drawn:
    return _Drawn(_name(span), span.begin, span.end, _args(span), [])


def _name(span: TimelineSpan) -> str:
    if span.kind == "call":
        return span.text
    if span.kind == "queued":
        return f"copy {span.copy} queued"
    if span.kind == "copy":
        return f"copy {span.copy} failed" if span.text else f"copy {span.copy}"
    if span.first_layer == span.last_layer:
        return f"layer {span.first_layer}"
    return f"layers {span.first_layer} to {span.last_layer}"


def _args(span: TimelineSpan) -> dict[str, Any]:
    args: dict[str, Any] = {}
    for name in ("copy", "first_layer", "last_layer", "pages", "bytes", "thread"):
        value = getattr(span, name)
        if value >= 0:
            args[name] = value
    if span.stream is not None:
        args["stream"] = span.stream
    if span.way:
        args["way"] = span.way
    if span.kind == "copy" and span.text:
        args["error"] = span.text
    if span.seen_by_host:
        args["times"] = "as a thread of the host saw them"
    return args
