"""promtool: config and rules are valid, and each alert fires when it should, and only then."""

from __future__ import annotations

import subprocess
from pathlib import Path

import yaml
from monitoring_files import CONFIG, RULES, rules
from prometheus_server import binary

HISTORIES = Path(__file__).with_name("alert_histories.yml")


def promtool(*arguments: str) -> None:
    run = subprocess.run([binary("promtool"), *arguments], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_config_and_its_rules_are_valid() -> None:
    promtool("check", "config", str(CONFIG))


def test_alerts_fire_in_the_histories_in_which_they_should() -> None:
    promtool("check", "rules", str(RULES))
    promtool("test", "rules", str(HISTORIES))


def test_each_alert_has_a_history_in_which_it_fires() -> None:
    """In the first history none does."""
    first, *others = yaml.safe_load(HISTORIES.read_text(encoding="utf-8"))["tests"]
    assert {"expr": "ALERTS", "eval_time": "120m"} in first["promql_expr_test"]
    expected = [
        sample["labels"]
        for history in others
        for case in history["promql_expr_test"]
        for sample in case.get("exp_samples", [])
    ]
    for alert in (rule["alert"] for rule in rules() if "alert" in rule):
        assert any(f'alertname="{alert}"' in labels for labels in expected), alert
