"""Constant labels of a cache's series: checked when a cache is added, not at the first scrape."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from hicache_nsa.metrics.table import METRICS

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_HINT = 'such as labels={"rank": "0"}'
RESERVED = frozenset({"le", "quantile", *(name for metric in METRICS for name, _ in metric.labels)})
"""Names of the rows' own labels."""


def checked_labels(labels: Mapping[str, str | int] | None) -> dict[str, str]:
    """The labels as text.

    Raises:
        TypeError: not a mapping of text to text or int. ValueError: no name that Prometheus takes,
            a name of ``RESERVED``, or a value that is empty, which is no label at all there, or
            that can't be written in UTF-8.
    """
    if labels is None:
        return {}
    if not isinstance(labels, Mapping):
        raise TypeError(f"labels must be a mapping, {_HINT}, got {type(labels).__name__}")
    for name, value in labels.items():
        if not isinstance(name, str) or isinstance(value, bool) or not isinstance(value, str | int):
            raise TypeError(f"labels must be text, {_HINT}, got {name!r}: {value!r}")
        if not _NAME.fullmatch(name) or name.startswith("__"):
            raise ValueError(
                f"{name!r} is no name of a label: letters, digits and _ only, no digit first, not "
                "__ first"
            )
        if name in RESERVED:
            raise ValueError(f"{name!r} is a label of the metrics themselves: choose another name")
        if value == "":
            raise ValueError(f"the label {name!r} has no value: leave it out, or give one")
        require_utf8(name, str(value))
    return {name: str(value) for name, value in labels.items()}


def require_utf8(name: str, value: str) -> None:
    """``ValueError`` if the value can't be written: each scrape would fail, of all caches."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"the label {name!r} can't be written in UTF-8: {value!r}") from error


def require_distinct(labels: dict[str, str], others: Iterable[dict[str, str]]) -> None:
    """``ValueError`` if another cache has these labels already, or labels of other names."""
    for other in others:
        if sorted(other) != sorted(labels):
            raise ValueError(
                f"all caches of a collector have labels of the same names: {sorted(labels)}, the "
                f"one before has {sorted(other)}"
            )
        if other == labels:
            raise ValueError(
                f"another cache has the labels {labels} already, their series would be the same: "
                f"give each cache its own, {_HINT}"
            )
