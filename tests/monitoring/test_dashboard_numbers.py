"""The dashboard's shares, evaluated on a history whose answers are known (alert_histories.yml)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml
from monitoring_files import as_sent, panels
from prometheus_server import binary

HISTORIES = Path(__file__).with_name("alert_histories.yml")

# By panel and legend: in a minute 100 tokens are looked up, and so on.
ANSWERS = {
    ("Hit rate", "hit rate"): 0.8,
    ("From host memory", "from host"): 0.2,
    ("Loads not hidden", "exposed wait"): 0.1,
    ("Failed copies", "failed"): 0,
    ("Corrupt pages", "corrupt"): 0,
    ("Pages compared with digests", "verified"): 0.5,
    ("Prompt tokens by where they were found", "device"): 0.6,
    ("Prompt tokens by where they were found", "host"): 0.2,
    ("Prompt tokens by where they were found", "on host, not loaded"): 0.05,
    ("Prompt tokens by where they were found", "missed"): 0.15,
    ("Exposed wait share", "of the loads"): 0.1,
    ("Exposed wait share", "of all time"): 0.017,  # a second a minute
    ("Waits for layers", "seconds a wait"): 0.25,
    ("Age at eviction", "host p50"): 2100,
    ("Pinned pages", "{{tier}}"): 0.1,
}
LABELS = {"{{tier}}": '{tier="host"}'}
"""Of a legend's series; else none."""


def expression_of(panel: str, legend: str) -> str:
    (found,) = [
        target["expr"]
        for each in panels()
        for target in each["targets"]
        if (each["title"], target["legendFormat"]) == (panel, legend)
    ]
    return as_sent(found, "a", "5m")


def require_answers(tmp_path: Path, series: list[dict[str, str]], cases: list[dict]) -> None:
    """promtool evaluates the cases on the series."""
    history = {"interval": "1m", "input_series": series, "promql_expr_test": cases}
    file = tmp_path / "dashboard.yml"
    file.write_text(yaml.safe_dump({"evaluation_interval": "1m", "tests": [history]}))
    run = subprocess.run(
        [binary("promtool"), "test", "rules", str(file)], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout + run.stderr


def case(expression: str, **answers: float) -> dict[str, object]:
    """Answers behind an hour, by legend, or by the labels of the series in braces."""
    samples = [
        {"labels": LABELS.get(name, name if name.startswith("{j") else "{}"), "value": value}
        for name, value in answers.items()
    ]
    return {"expr": expression, "eval_time": "60m", "exp_samples": samples}


def test_the_answers_are_right(tmp_path: Path) -> None:
    series = yaml.safe_load(HISTORIES.read_text(encoding="utf-8"))["tests"][0]["input_series"]
    cases = [
        case(f"round({expression_of(panel, legend)}, 0.001)", **{legend: answer})
        for (panel, legend), answer in ANSWERS.items()
    ]
    require_answers(tmp_path, series, cases)


def test_two_caches_of_one_process_are_told_apart(tmp_path: Path) -> None:
    """A model and its draft, with pages of 64 tokens and of 1; both wait half of the time."""
    growing = {
        "hicache_exposed_wait_seconds_total": (30, 30),
        "hicache_loaded_tokens_total": (64, 36),
        "hicache_verified_pages_total": (1, 11),
    }
    still = {"hicache_page_tokens": (64, 1)}
    series = []
    for number, model in enumerate(("glm", "draft")):
        cache = f'job="hicache", instance="a", model="{model}"'
        for name, steps in growing.items():
            series.append({"series": f"{name}{{{cache}}}", "values": f"0+{steps[number]}x60"})
        for name, values in still.items():
            series.append({"series": f"{name}{{{cache}}}", "values": f"{values[number]}x60"})
        for tier, nbytes in (("device", 1000), ("host", 5000)):
            of_tier = f'hicache_tier_bytes{{{cache}, tier="{tier}"}}'
            series.append({"series": of_tier, "values": f"{nbytes + number}x60"})
    info, tokens, device, host = (
        as_sent(target["expr"], "a", "5m")
        for panel in panels() if panel["title"] == "What the caches are"
        for target in panel["targets"]
    )  # fmt: skip
    assert info.startswith("hicache_cache_info{")
    of = '{{job="hicache", instance="a", model="{}"}}'.format
    share = expression_of("Pages compared with digests", "verified")
    waits = expression_of("Exposed wait share", "of all time")
    cases = [
        case(f"round({share}, 0.001)", verified=0.75),
        case(f"round({waits}, 0.001)", waits=0.5),
        case(tokens, **{of("glm"): 64, of("draft"): 1}),
        case(device, **{of("glm"): 1000, of("draft"): 1001}),
        case(host, **{of("glm"): 5000, of("draft"): 5001}),
    ]
    require_answers(tmp_path, series, cases)


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel["title"])
def test_a_share_has_its_answer_here(panel: dict[str, object]) -> None:
    """A panel that divides is one that can divide by the wrong thing."""
    for target in panel["targets"]:  # type: ignore[attr-defined]
        if " / " in target["expr"]:
            assert (panel["title"], target["legendFormat"]) in ANSWERS
