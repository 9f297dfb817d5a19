"""A real Prometheus server scrapes `hicache demo`: all expressions of docs/monitoring find series.

The server runs with docs/monitoring/prometheus.yml, its target and intervals replaced. All checks
are made once it has scraped what the demo ended with.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from monitoring_files import (
    CONFIG,
    METRIC_OF,
    RULES,
    SHOWN_TARGET,
    Drawn,
    as_sent,
    documented,
    drawn,
    rules,
    variables,
)
from prometheus_server import Server, binary, prometheus, stop, wait_for

from hicache_nsa.metrics.table import BY_CACHE, BY_FORMAT

pytest.importorskip("torch")
pytestmark = pytest.mark.timeout(300)
DEMO = ["demo", "--questions", "2", "--shots", "3", "--tokenizer", "bytes", "--layers", "1"]
DEMO += ["--max-new-tokens", "2", "--metrics-port", "0", "--metrics-hold", "600"]
SCRAPED_TIMES = 3  # a rate needs two
INTERVAL = "1s"


@dataclass(frozen=True)
class Scraped:
    """instance: the demo's address. at: Unix time of a scrape that saw all. result: its JSON.

    Expressions are evaluated for that moment: a later scrape may fail on a busy machine, and
    all series count as gone from then on.
    """

    server: Server
    at: float
    instance: str
    result: dict[str, Any]

    def total(self, name: str, **labels: str) -> float:
        """The sum of ``name`` over all its series with ``labels``."""
        matchers = ",".join(f'{label}="{value}"' for label, value in labels.items())
        found = self.server.number(f"sum({name}{{{matchers}}})", self.at)
        assert found is not None, (name, labels)
        return found

    def query(self, expression: str) -> list[dict[str, Any]]:
        return self.server.query(expression, self.at)

    def as_sent(self, expression: str) -> str:
        return as_sent(expression, self.instance, "1m")


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    binary("prometheus")  # without one, nothing is started
    folder = tmp_path_factory.mktemp("monitoring")
    result, said = folder / "demo.json", folder / "demo.stderr"
    command = [sys.executable, "-m", "hicache_nsa.cli", *DEMO, "--json", str(result)]
    with said.open("w", encoding="utf-8") as file:
        demo = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=file)
        try:
            instance = wait_for("port", lambda: shown_address(demo, said), said.read_text)
            with prometheus(config_for(instance, folder), folder) as server:
                wait_for("end of the demo", lambda: is_over(demo, said), said.read_text)
                over = time.time()
                at = wait_for("scrape", lambda: saw_all(server, over), lambda: targets(server))
                written = json.loads(result.read_text(encoding="utf-8"))
                yield Scraped(server, at, instance, written)
        finally:
            stop(demo)


def shown_address(demo: subprocess.Popen[bytes], said: Path) -> str | None:
    text = said.read_text(encoding="utf-8")
    assert demo.poll() is None, text
    found = re.search(r"^Metrics: http://(127\.0\.0\.1:\d+)/metrics$", text, re.MULTILINE)
    return found[1] if found else None


def is_over(demo: subprocess.Popen[bytes], said: Path) -> bool | None:
    text = said.read_text(encoding="utf-8")
    assert demo.poll() is None, text
    return True if "The demo is over." in text else None


def config_for(instance: str, folder: Path) -> Path:
    """The config of docs/monitoring for this target, in ``folder``, with the rules beside it."""
    text = CONFIG.read_text(encoding="utf-8")
    assert text.count(f"- {SHOWN_TARGET}\n") == 1
    text = text.replace(f"- {SHOWN_TARGET}\n", f"- {instance}\n")
    text, replaced = re.subn(r"_interval: 15s", f"_interval: {INTERVAL}", text)
    assert replaced == 2
    config = folder / CONFIG.name
    config.write_text(text, encoding="utf-8")
    (folder / RULES.name).write_bytes(RULES.read_bytes())
    return config


def saw_all(server: Server, over: float) -> float | None:
    """The Unix time of the last scrape, if it was after ``over`` and there were enough of them."""
    last = server.number("timestamp(hicache_cache_info)")
    times = server.number("count_over_time(hicache_cache_info[5m])")
    return last if last and times and last > over and times >= SCRAPED_TIMES else None


def targets(server: Server) -> str:
    return json.dumps(server.get("targets")["activeTargets"], indent=1)


def show(each: Drawn) -> str:
    return each.title


@pytest.mark.parametrize("each", drawn(), ids=show)
def test_every_expression_of_the_dashboard_finds_series(scraped: Scraped, each: Drawn) -> None:
    assert scraped.query(scraped.as_sent(each.expression)), each.expression


@pytest.mark.parametrize("variable", variables(), ids=lambda variable: variable["name"])
def test_every_variable_finds_values(scraped: Scraped, variable: dict[str, Any]) -> None:
    found = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
    assert found
    selector, label = scraped.as_sent(found[1]), found[2]
    values = scraped.server.get(f"label/{label}/values", **{"match[]": selector})
    assert values == [{"job": "hicache", "instance": scraped.instance}[variable["name"]]]


@pytest.mark.parametrize("each", documented(), ids=show)
def test_every_expression_of_the_docs_finds_series(scraped: Scraped, each: Drawn) -> None:
    assert scraped.query(each.expression), each.expression


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.get("record") or rule["alert"])
def test_every_rule_is_evaluated_and_finds_series(scraped: Scraped, rule: dict[str, Any]) -> None:
    """A comparison keeps only series for which it holds; with bool it keeps all."""
    expression = rule["expr"]
    if "alert" in rule:
        expression, compared = re.subn(r" ([<>]) ", r" \1 bool ", expression)
        assert compared >= 1
    assert scraped.query(expression), expression
    name = rule.get("record") or rule["alert"]
    wait_for("evaluation", lambda: is_evaluated(scraped.server, name), lambda: name)
    if "record" in rule:
        wait_for("series", lambda: scraped.server.query(name) or None, lambda: name)


def is_evaluated(server: Server, name: str) -> bool | None:
    groups = server.get("rules")["groups"]
    (running,) = [each for group in groups for each in group["rules"] if each["name"] == name]
    assert running["health"] in ("ok", "unknown"), running
    return True if running["health"] == "ok" else None


def test_no_alert_fires_in_a_demo_that_went_well(scraped: Scraped) -> None:
    assert scraped.server.query('ALERTS{alertstate="firing"}') == []


@pytest.mark.parametrize("name", sorted(METRIC_OF))
def test_every_metric_of_the_table_was_scraped(scraped: Scraped, name: str) -> None:
    """With every value of every label that the table lists."""
    found = scraped.query(name)
    assert found, name
    for label, values in METRIC_OF[name].labels:
        there = {series["metric"].get(label) for series in found}
        if values not in (BY_CACHE, BY_FORMAT):
            assert there == set(values), label
        assert all(there), label


def test_the_numbers_are_those_of_the_demo(scraped: Scraped) -> None:
    runs = scraped.result["runs"]
    demo = {key: sum(run[key] for run in runs) for key in runs[0] if key.endswith("_tokens")}
    questions = sum(run["questions"] for run in runs)
    tokens = "hicache_tokens_total"
    assert demo["host_hit_tokens"] > 0 and demo["device_hit_tokens"] > 0
    # A prompt's last token is computed in any case, so the demo does not look it up.
    assert scraped.total("hicache_requested_tokens_total") == demo["prompt_tokens"] - questions
    assert scraped.total(tokens, source="device") == demo["device_hit_tokens"]
    assert scraped.total(tokens, source="host") == demo["host_hit_tokens"]
    assert scraped.total("hicache_found_host_tokens_total") == demo["host_hit_tokens"]
    assert scraped.total("hicache_loaded_tokens_total") == demo["host_hit_tokens"]
    assert scraped.total("hicache_missed_tokens_total") == demo["computed_tokens"] - questions
    assert scraped.total("hicache_copies_total", result="failed") == 0


def test_the_sums_of_the_table_hold(scraped: Scraped) -> None:
    settings = scraped.result["settings"]
    assert scraped.total("hicache_pages", tier="device") == settings["device_pages"]
    assert scraped.total("hicache_pages", tier="host") == settings["host_pages"]
    found = scraped.total("hicache_tokens_total", source="device")
    found += scraped.total("hicache_found_host_tokens_total")
    missed = scraped.total("hicache_missed_tokens_total")
    assert scraped.total("hicache_requested_tokens_total") == found + missed
    page_tokens = scraped.total("hicache_page_tokens")
    assert page_tokens == settings["page_size"]
    for moved in ("loaded", "saved"):
        pages = scraped.total(f"hicache_{moved}_tokens_total") / page_tokens
        assert pages > 0
        assert scraped.total(f"hicache_{moved}_bytes_total") == pages * settings["page_bytes"]
    # Pools that hold all: what was computed was saved, each page once, and is there.
    saved = scraped.total("hicache_saved_tokens_total")
    assert scraped.total("hicache_pages", tier="host", state="cached") * page_tokens == saved
