"""What a collector exports, as a table of numbers to look up."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from hicache_nsa.metrics import Collector


class Scrape:
    """Samples by exported name and labels, each once."""

    def __init__(self, families: Iterable[Any]) -> None:
        self.families = list(families)
        self.values: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
        for family in self.families:
            for sample in family.samples:
                key = sample.name, frozenset(sample.labels.items())
                assert key not in self.values, f"{key} twice"
                self.values[key] = sample.value

    def __getitem__(self, name: str) -> float:
        """Of a series without labels of its own: ``hicache_`` and ``name``."""
        return self.value(name)

    def value(self, name: str, **labels: str) -> float:
        return self.values["hicache_" + name, frozenset(labels.items())]

    def sum(self, name: str, **labels: str) -> float:
        """Over all series of that name that have these labels."""
        wanted = set(labels.items())
        found = [v for (n, ls), v in self.values.items() if n == "hicache_" + name and ls >= wanted]
        assert found, (name, labels)
        return sum(found)

    def cumulative(self) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        """All that may never fall."""
        ends = "_total", "_bucket", "_count", "_sum"
        return {key: value for key, value in self.values.items() if key[0].endswith(ends)}

    def require_sound(self) -> None:
        """Numbers, none below 0, each histogram a running sum that ends at its count."""
        for key, value in self.values.items():
            assert math.isfinite(value) and value >= 0, (key, value)
        for family in self.families:
            if family.type == "histogram":
                _require_running_sums(family)


def _require_running_sums(family: Any) -> None:
    reached: dict[frozenset[tuple[str, str]], list[tuple[float, float]]] = {}
    counts = {}
    for sample in family.samples:
        labels = dict(sample.labels)
        if sample.name.endswith("_bucket"):
            bound = float(labels.pop("le"))
            reached.setdefault(frozenset(labels.items()), []).append((bound, sample.value))
        elif sample.name.endswith("_count"):
            counts[frozenset(labels.items())] = sample.value
    assert reached.keys() == counts.keys()
    for labels, buckets in reached.items():
        bounds, values = zip(*buckets, strict=True)
        assert list(bounds) == sorted(set(bounds)) and bounds[-1] == math.inf
        assert list(values) == sorted(values) and values[-1] == counts[labels]


def scrape(collector: Collector) -> Scrape:
    """What a registry sees."""
    return Scrape(collector.collect())


def scrape_text(collector: Collector) -> Scrape:
    """The same by way of the text that Prometheus is sent."""
    registry = CollectorRegistry()
    registry.register(collector)
    return Scrape(text_string_to_metric_families(generate_latest(registry).decode()))
