"""What is in docs/monitoring, docs/metrics.md and the table of metrics, as the tests need it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from hicache_nsa.metrics.table import METRICS, Metric

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "monitoring"
CONFIG = FOLDER / "prometheus.yml"
RULES = FOLDER / "hicache.rules.yml"
SHOWN_TARGET = "127.0.0.1:9400"

# A name of a series of ours, not the end of a recorded one (level:hicache_...:operation).
SERIES = re.compile(r"(?<![\w:])hicache_\w+")
# A series with its matchers: name, what is between the braces.
SELECTOR = re.compile(r"(?<![\w:])(hicache_\w+)(?:\{([^}]*)\})?")
MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
RECORDED = re.compile(r"\bjob_instance:\w+:\w+")


@dataclass(frozen=True)
class Drawn:
    """An expression that Grafana sends: the panel's title (or the variable's name) and PromQL."""

    title: str
    expression: str


def dashboard() -> dict[str, Any]:
    return json.loads((FOLDER / "grafana.json").read_text(encoding="utf-8"))


def panels() -> list[dict[str, Any]]:
    """All panels but the headings of rows."""
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def drawn() -> list[Drawn]:
    return [Drawn(p["title"], target["expr"]) for p in panels() for target in p["targets"]]


def as_sent(expression: str, instance: str, window: str) -> str:
    """An expression as Grafana sends it: job and instance chosen, windows filled in."""
    chosen = f"({re.escape(instance)})".replace("\\", "\\\\")
    values = {"$job": "(hicache)", "$instance": chosen}
    values |= {"$__rate_interval": window, "$__range": "1h"}
    for variable, value in values.items():
        expression = expression.replace(variable, value)
    assert "$" not in expression, expression
    return expression


def variables() -> list[dict[str, Any]]:
    """The variables that Prometheus is asked for; the data source is Grafana's own."""
    return [v for v in dashboard()["templating"]["list"] if v["type"] == "query"]


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def documented() -> list[Drawn]:
    """Expressions of docs/metrics.md: blocks ```promql, expressions separated by empty lines."""
    text = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```promql\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    parts = [part for block in blocks for part in re.split(r"\n\s*\n", block)]
    return [Drawn("docs/metrics.md", without_comments(part)) for part in parts if part.strip()]


def without_comments(expression: str) -> str:
    lines = [line.partition("#")[0].rstrip() for line in expression.splitlines()]
    return "\n".join(line for line in lines if line)


def exported_names(metric: Metric) -> tuple[str, ...]:
    """The names under which Prometheus knows a metric."""
    name = f"hicache_{metric.name}"
    if metric.type == "counter":
        return (f"{name}_total",)
    if metric.type == "histogram":
        return tuple(f"{name}_{part}" for part in ("bucket", "sum", "count"))
    return (f"{name}_info",) if metric.type == "info" else (name,)


METRIC_OF = {name: metric for metric in METRICS for name in exported_names(metric)}
