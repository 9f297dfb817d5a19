"""Spans as a GPU's copies and streams give them, as events."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from trace_format import check_events, rows_in_order

from hicache_nsa.timeline import trace_events


def span(track: str, kind: str, begin: int, end: int, **more: Any) -> Any:
    """A record as the core gives it."""
    numbers = dict.fromkeys(("thread", "copy", "first_layer", "last_layer", "pages", "bytes"), -1)
    rest = {"seen_by_host": False, "stream": None, "way": "", "text": ""}
    times = {"begin": begin, "end": end}
    return SimpleNamespace(track=track, kind=kind, **{**numbers, **rest, **times, **more})


def layers(copy: int, begin: int, end: int, first: int, last: int, track: str = "h2d") -> Any:
    numbers = {"copy": copy, "first_layer": first, "last_layer": last}
    return span(track, "layers", begin, end, **numbers)


def test_copies_that_overlap_get_a_row_each_with_their_layers() -> None:
    spans = [
        layers(1, 100, 200, 0, 3),
        layers(1, 200, 300, 4, 4),
        span("h2d", "copy", 100, 300, copy=1, pages=2, bytes=10, way="staged"),
        layers(2, 250, 400, 0, 4),
        span("h2d", "copy", 250, 410, copy=2, pages=2, bytes=10, way="kernel"),
        layers(3, 410, 420, 0, 4),
        span("h2d", "copy", 410, 430, copy=3, pages=1, bytes=5, way="direct"),
    ]
    events = trace_events(spans)
    found = check_events(events)
    assert rows_in_order(events) == ["H2D", "H2D, row 2"]
    names = {row: [s.name for s in found if s.row == row] for row in ("H2D", "H2D, row 2")}
    assert names["H2D"] == ["copy 1", "layers 0 to 3", "layer 4", "copy 3", "layers 0 to 4"]
    assert names["H2D, row 2"] == ["copy 2", "layers 0 to 4"]
    assert [s.args["way"] for s in found if "way" in s.args] == ["staged", "direct", "kernel"]


def test_times_are_microseconds_since_the_first_span() -> None:
    (event,) = (
        event
        for event in trace_events([span("compute", "call", 7_000_001_500, 7_000_002_750, text="x")])
        if event["ph"] == "X"
    )
    assert (event["ts"], event["dur"]) == (0, 1.25)
    spans = [span("compute", "call", 2_000, 3_000, text="a"), span("h2d", "copy", 500, 600, copy=1)]
    assert {s.name: s.begin for s in check_events(trace_events(spans))} == {"a": 1500, "copy 1": 0}


def test_readers_that_cut_off_get_every_nanosecond() -> None:
    spans = [span("compute", "call", n, n + 1 + n % 7, text="x") for n in range(0, 100_000, 7)]
    spans += [span("compute", "call", 10**15 + n, 10**15 + n + 1, text="x") for n in range(1000)]
    events = [event for event in trace_events(spans) if event["ph"] == "X"]
    read = sorted((int(event["ts"] * 1000), int(event["dur"] * 1000)) for event in events)
    assert read == sorted((each.begin, each.end - each.begin) for each in spans)


def test_every_stream_and_thread_that_waits_has_a_row() -> None:
    spans = [
        span("waits", "wait", 0, 50, stream=94, copy=1, first_layer=0, last_layer=0),
        span("waits", "wait", 10, 60, stream=95, copy=1, first_layer=0, last_layer=0),
        span("waits", "wait", 20, 70, thread=7, copy=1, first_layer=0, last_layer=0),
        span("waits", "wait", 50, 70, stream=94, copy=1, first_layer=1, last_layer=1),
        span("waits", "wait", 70, 90, stream=94, copy=2, first_layer=1, last_layer=1),
    ]
    events = trace_events(spans)
    assert rows_in_order(events) == ["waits, stream 94", "waits, stream 95", "waits, thread 7"]
    found = [s for s in check_events(events) if s.row == "waits, stream 94"]
    assert [(s.name, s.args["copy"]) for s in found] == [
        *(("layer 0", 1), ("layer 1", 1), ("layer 1", 2))
    ]


def test_times_that_only_the_host_saw_are_marked() -> None:
    spans = [span("d2h", "copy", 0, 9, copy=1, seen_by_host=True), span("d2h", "copy", 9, 10)]
    marked, plain = check_events(trace_events(spans))
    assert "host" in marked.args["times"]
    assert "times" not in plain.args


def test_random_spans_never_overlap_in_part() -> None:
    rng = random.Random(11)
    for _ in range(60):
        spans = []
        for copy in range(1, 8):
            begin = rng.randrange(1000)
            cuts = sorted(rng.randrange(1, 300) for _ in range(4))
            ends = [begin, *(begin + cut for cut in cuts)]
            track = rng.choice(["h2d", "d2h"])
            spans += [layers(copy, ends[i], ends[i + 1], i, i, track) for i in range(4)]
            if rng.random() < 0.8:
                spans.append(span(track, "copy", begin, ends[-1] + 3, copy=copy))
            spans.append(span(track, "queued", max(begin - 100, 0), begin, copy=copy))
            thread = rng.randrange(2)
            spans.append(span("compute", "call", begin, begin + 90, text="x", thread=thread))
        rng.shuffle(spans)
        assert len(check_events(trace_events(spans))) == len(spans)
