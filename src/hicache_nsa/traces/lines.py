"""JSON lines: one object a line, blank lines passed over."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]


class TraceError(ValueError):
    """A trace can't be read; the message names the file and, if it is one, the broken line."""


def json_rows(path: str | Path) -> Iterator[tuple[str, Row]]:
    """(place, object) of each line; place is ``FILE:LINE``.

    Raises:
        TraceError: the file can't be read, or a line is no JSON object.
    """
    try:
        with Path(path).open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    place = f"{path}:{number}"
                    yield place, _object(line, place)
    except OSError as error:
        raise TraceError(f"cannot read the trace {path}: {error}") from error


def _object(line: bytes, place: str) -> Row:
    try:
        row = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{place}: not a line of JSON ({error})") from error
    if not isinstance(row, dict):
        raise TraceError(f"{place}: expected an object, got {type(row).__name__}")
    return row
