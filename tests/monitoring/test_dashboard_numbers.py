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


def expression_of(panel: str, legend: str) -> str:
    (found,) = [
        target["expr"]
        for each in panels()
        for target in each["targets"]
        if (each["title"], target["legendFormat"]) == (panel, legend)
    ]
    return as_sent(found, "a", "5m")


def test_the_answers_are_right(tmp_path: Path) -> None:
    series = yaml.safe_load(HISTORIES.read_text(encoding="utf-8"))["tests"][0]["input_series"]
    cases = [
        {
            "expr": f"round({expression_of(panel, legend)}, 0.001)",
            "eval_time": "60m",
            "exp_samples": [{"labels": LABELS.get(legend, "{}"), "value": answer}],
        }
        for (panel, legend), answer in ANSWERS.items()
    ]
    history = {"interval": "1m", "input_series": series, "promql_expr_test": cases}
    file = tmp_path / "dashboard.yml"
    file.write_text(yaml.safe_dump({"evaluation_interval": "1m", "tests": [history]}))
    run = subprocess.run(
        [binary("promtool"), "test", "rules", str(file)], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel["title"])
def test_a_share_has_its_answer_here(panel: dict[str, object]) -> None:
    """A panel that divides is one that can divide by the wrong thing."""
    for target in panel["targets"]:  # type: ignore[attr-defined]
        if " / " in target["expr"]:
            assert (panel["title"], target["legendFormat"]) in ANSWERS
