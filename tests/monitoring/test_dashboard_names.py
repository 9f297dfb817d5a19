"""What grafana.json, the rules and docs/metrics.md name is in the table, and all of it is used."""

from __future__ import annotations

import re

import pytest
from monitoring_files import (
    FOLDER,
    MATCHER,
    METRIC_OF,
    RECORDED,
    RULES,
    SELECTOR,
    SERIES,
    dashboard,
    documented,
    drawn,
    exported_names,
    panels,
    rules,
    variables,
)

from hicache_nsa.metrics.table import METRICS

# Metrics of the table that no panel draws, and why.
NOT_DRAWN: dict[str, str] = {}

OF_PROMETHEUS = {"job", "instance", "le"}
UNITS = {"short", "ops", "percentunit", "Bps", "bytes", "s"}
EXPRESSIONS = [(each.title, each.expression) for each in drawn()]
EXPRESSIONS += [(v["name"], v["query"]["query"]) for v in variables()]
EXPRESSIONS += [(rule.get("record") or rule["alert"], rule["expr"]) for rule in rules()]
IDS = [f"{title}-{number}" for number, (title, _) in enumerate(EXPRESSIONS)]
WITH_DOCS = EXPRESSIONS + [(each.title, each.expression) for each in documented()]
WITH_DOCS_IDS = [f"{title}-{number}" for number, (title, _) in enumerate(WITH_DOCS)]


@pytest.mark.parametrize(("title", "expression"), WITH_DOCS, ids=WITH_DOCS_IDS)
def test_every_series_is_in_the_table(title: str, expression: str) -> None:
    names = set(SERIES.findall(expression))
    assert names or RECORDED.search(expression)
    assert names - set(METRIC_OF) == set()


@pytest.mark.parametrize(("title", "expression"), WITH_DOCS, ids=WITH_DOCS_IDS)
def test_every_label_and_value_is_in_the_table(title: str, expression: str) -> None:
    known = dict(METRICS_LABELS)
    for name, matchers in SELECTOR.findall(expression):
        for label, operator, value in MATCHER.findall(matchers):
            if label in OF_PROMETHEUS:
                continue
            values = dict(METRIC_OF[name].labels)[label]
            asked = value.split("|") if "~" in operator else [value]
            assert set(asked) <= set(values), (name, label, value)
    for labels in re.findall(r"\bby \(([^)]*)\)", expression):
        for label in labels.split(", "):
            assert label in OF_PROMETHEUS | set(known), label


METRICS_LABELS = [(label, values) for metric in METRICS for label, values in metric.labels]


def test_every_metric_is_drawn_or_named_as_not_drawn() -> None:
    text = " ".join(each.expression for each in drawn())
    used = set(SERIES.findall(text))
    missing = {m.name for m in METRICS if not used & set(exported_names(m))}
    assert missing == set(NOT_DRAWN)


@pytest.mark.parametrize(("title", "expression"), EXPRESSIONS, ids=IDS)
def test_counters_and_buckets_are_drawn_as_rates(title: str, expression: str) -> None:
    """A total since the start of a process says nothing beside one of another start."""
    if title == "After a restart":  # these are counted once, at the start
        return
    for found in SELECTOR.finditer(expression):
        if METRIC_OF[found[1]].type in ("counter", "histogram"):
            assert re.search(r"(rate|increase)\($", expression[: found.start()]), found[0]
            assert expression[found.end()] == "[", found[0]
        else:
            assert expression[found.end() : found.end() + 1] != "[", found[0]


def test_each_recorded_series_is_made_by_a_rule() -> None:
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    used = set(RECORDED.findall(" ".join(rule["expr"] for rule in rules())))
    assert used <= recorded
    assert len(recorded) == sum("record" in rule for rule in rules())


def test_every_alert_says_how_bad_it_is_and_what_to_do() -> None:
    alerts = [rule for rule in rules() if "alert" in rule]
    assert len(alerts) >= 4
    for alert in alerts:
        assert alert["labels"]["severity"] in ("critical", "warning")
        assert "instance" in alert["annotations"]["summary"]
        assert len(alert["annotations"]["description"]) > 80


def test_every_panel_can_be_read_alone() -> None:
    for panel in panels():
        assert len(panel["description"]) > 40, panel["title"]
        assert panel["targets"], panel["title"]
        if panel["type"] not in ("table", "heatmap"):
            assert panel["fieldConfig"]["defaults"]["unit"] in UNITS, panel["title"]
            assert all(target["legendFormat"] for target in panel["targets"]), panel["title"]


def test_every_panel_is_chosen_by_the_variables_and_asks_the_chosen_source() -> None:
    for panel in panels():
        for target in panel["targets"]:
            assert target["datasource"]["uid"] == "${datasource}"
            for name, matchers in SELECTOR.findall(target["expr"]):
                assert 'job=~"$job", instance=~"$instance"' in matchers, (panel["title"], name)


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    every = dashboard()["panels"]
    assert len({panel["id"] for panel in every}) == len(every)
    taken: set[tuple[int, int]] = set()
    for panel in every:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken and place["x"] + place["w"] <= 24, panel["title"]
        taken |= cells


def test_the_readme_has_every_panel_rule_and_file() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    cells = set(re.findall(r"^\| ([^|]+?) \|", text, re.MULTILINE))
    named = {part.strip().strip("`") for cell in cells for part in cell.split("<br>")}
    assert {panel["title"] for panel in panels()} - named == set()
    assert {rule.get("record") or rule["alert"] for rule in rules()} - named == set()
    assert all(file.name in text for file in FOLDER.iterdir() if file.name != "README.md")
    assert RULES.name in text


def test_the_expressions_of_the_docs_are_found() -> None:
    assert len(documented()) >= 15
