"""A strict reader of the Trace Event Format, as far as the timeline writes it."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

EVENT_KEYS = {
    "X": {"ph", "name", "cat", "pid", "tid", "ts", "dur", "args"},
    "M": {"ph", "name", "pid", "tid", "args"},
}
METADATA_ARGS = {
    "process_name": {"name": str},
    "thread_name": {"name": str},
    "thread_sort_index": {"sort_index": int},
}


@dataclass(frozen=True)
class Slice:
    """A complete event; times in nanoseconds."""

    row: str
    name: str
    begin: int
    end: int
    args: dict[str, Any]


def read_trace(path: Path) -> list[Slice]:
    """The slices of a file; AssertionError for anything that the format does not allow."""
    document = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_constant)
    assert set(document) == {"traceEvents", "displayTimeUnit", "otherData"}
    assert document["displayTimeUnit"] in ("ms", "ns")
    return check_events(document["traceEvents"])


def check_events(events: list[dict[str, Any]]) -> list[Slice]:
    """The slices of a list of events, every event checked, and that slices of a row nest."""
    assert isinstance(events, list)
    rows: dict[int, str] = {}
    places: dict[int, int] = {}
    for event in events:
        assert set(event) == EVENT_KEYS[event["ph"]], event
        assert isinstance(event["name"], str) and event["name"]
        assert type(event["pid"]) is int and type(event["tid"]) is int
        assert isinstance(event["args"], dict)
        json.dumps(event, allow_nan=False)
        if event["ph"] == "M":
            (key, kind), *rest = METADATA_ARGS[event["name"]].items()
            assert not rest
            assert set(event["args"]) == {key} and type(event["args"][key]) is kind
            if event["name"] == "thread_name":
                assert event["tid"] not in rows
                rows[event["tid"]] = event["args"]["name"]
            elif event["name"] == "thread_sort_index":
                places[event["tid"]] = event["args"]["sort_index"]
    assert rows.keys() == places.keys()
    assert len(set(rows.values())) == len(rows)
    assert len({event["pid"] for event in events}) == 1
    slices = [_slice(event, rows) for event in events if event["ph"] == "X"]
    check_nesting(slices)
    return slices


def rows_in_order(events: list[dict[str, Any]]) -> list[str]:
    """Names of the rows as a viewer shows them, from top to bottom."""
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    order = {e["tid"]: e["args"]["sort_index"] for e in events if e["name"] == "thread_sort_index"}
    return [names[tid] for tid in sorted(names, key=lambda tid: order[tid])]


def check_nesting(slices: list[Slice]) -> None:
    """Two slices of a row are apart, or one is inside the other."""
    by_row: dict[str, list[Slice]] = defaultdict(list)
    for each in slices:
        by_row[each.row].append(each)
    for row, members in by_row.items():
        open_ends: list[int] = []
        for each in sorted(members, key=lambda s: (s.begin, -s.end)):
            while open_ends and open_ends[-1] <= each.begin:
                open_ends.pop()
            assert not open_ends or each.end <= open_ends[-1], (row, each)
            open_ends.append(each.end)


def _slice(event: dict[str, Any], rows: dict[int, str]) -> Slice:
    for key in ("ts", "dur"):
        assert type(event[key]) in (int, float) and event[key] >= 0, event
    begin = round(event["ts"] * 1000)
    return Slice(
        rows[event["tid"]], event["name"], begin, begin + round(event["dur"] * 1000), event["args"]
    )


def _no_constant(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")
