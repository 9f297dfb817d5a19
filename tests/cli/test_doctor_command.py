"""``hicache doctor`` as a command: text, JSON, exit codes, what it loads."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hicache_nsa import doctor as doctor_part
from hicache_nsa.cli.app import hicache
from hicache_nsa.doctor import CHECKS, FAIL, OK, WARN, DoctorReport, Finding
from hicache_nsa.doctor.facts import Measured

COMMAND = [sys.executable, "-m", "hicache_nsa.cli", "doctor", "--device", "cpu"]
ON_A_CPU = [name for name in CHECKS if name not in ("driver", "pcie", "batch copy", "link curve")]
LINES = {
    "first": Finding(OK, "something", "It is good."),
    "second line": Finding(WARN, "less", "It is slow.", "do this"),
}


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(hicache, ["doctor", *arguments], prog_name="hicache")


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the examination ends with, and the device that was asked for."""
    state: dict[str, Any] = {"lines": dict(LINES), "interrupted": False}

    def read_facts(device: str | None) -> None:
        state["device"] = device

    def examine(facts: None) -> DoctorReport:
        measured = Measured(5e9, 6e9, "so")
        return DoctorReport("cpu", state["lines"], measured, None, state["interrupted"])

    monkeypatch.setattr(doctor_part, "read_facts", read_facts)
    monkeypatch.setattr(doctor_part, "examine", examine)
    return state


def test_this_machine(tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    run = subprocess.run([*COMMAND, "--json", str(file)], capture_output=True, text=True)
    written = json.loads(file.read_text(encoding="utf-8"))
    assert run.returncode == (0 if written["passed"] else 1), run.stderr
    assert run.stderr == "" and "\x1b" not in run.stdout
    assert {"version", "command", "environment", "counts"} <= set(written)
    assert written["device"] == written["environment"]["device"] == "cpu"
    lines = {line["name"]: line for line in written["lines"]}
    assert [name for name in lines if name != "driver"] == ON_A_CPU
    assert not [line for line in lines.values() if "could not be checked" in line["found"]]
    assert lines["bandwidth"]["verdict"] == OK
    assert written["measured"]["h2d_gbps"] > 0 and written["measured"]["d2h_gbps"] > 0
    for name, line in lines.items():
        assert f"  {name} " in run.stdout and line["found"] in run.stdout
    assert sum(written["counts"].values()) == len(lines)


def test_it_loads_no_torch_and_needs_no_extra() -> None:
    code = (
        "import sys; sys.modules['rich'] = None\n"
        "from hicache_nsa.cli.app import hicache\n"
        "from hicache_nsa.doctor import measuring\n"
        "measuring.measure.__defaults__ = (0.0,)\n"
        "hicache.main(['doctor', '--device', 'cpu'], standalone_mode=False)"
    )
    code = f"try:\n {code.replace(chr(10), chr(10) + ' ')}\nfinally: print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout.splitlines()[-1] == "False", run.stderr
    assert "huge pages" in run.stdout


def test_the_text(found: dict[str, Any]) -> None:
    outcome = invoke()
    assert outcome.exit_code == 0 and found["device"] is None
    assert outcome.output.splitlines() == [
        "ok    first        something",
        "                   It is good.",
        "warn  second line  less",
        "                   It is slow.",
        "                   Fix: do this",
        "",
        "cpu: 1 ok, 1 warn, 0 fail.",
    ]


def test_a_failed_line_is_exit_code_1(found: dict[str, Any]) -> None:
    found["lines"]["third"] = Finding(FAIL, "nothing", "It is broken.", "buy another")
    outcome = invoke()
    assert outcome.exit_code == 1
    assert "fail  third" in outcome.output and "1 ok, 1 warn, 1 fail." in outcome.output


def test_an_interrupted_one_prints_what_it_has(found: dict[str, Any]) -> None:
    found["interrupted"] = True
    outcome = invoke("--json", "-")
    assert outcome.exit_code == 1
    content = json.loads(outcome.output)
    assert content["interrupted"] is True and len(content["lines"]) == 2
    assert "Interrupted" in invoke().output and "something" in invoke().output


@pytest.mark.parametrize("device", ["cpu", "cuda", "cuda:3"])
def test_devices(device: str, found: dict[str, Any]) -> None:
    assert invoke("--device", device).exit_code == 0
    assert found["device"] == device


def test_no_gpu_is_a_failed_line(no_gpu: str, tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    outcome = invoke("--device", "cuda", "--json", str(file))
    assert outcome.exit_code == 1
    written = json.loads(file.read_text())
    failed = [line["name"] for line in written["lines"] if line["verdict"] == FAIL]
    assert failed in (["package"], ["gpu"], ["driver", "gpu"])
    assert "Fix: " in outcome.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--device", "tpu"], "--device"),
        (["--device", "cuda:x"], "'cuda:x' is unknown"),
        (["--json", "no-such-folder/out.json"], "--json"),
        (["--json", "."], "is a folder"),
        (["--seconds", "3"], "--seconds"),
        (["now"], "now"),
    ],
)
def test_bad_usage(arguments: list[str], message: str) -> None:
    outcome = invoke(*arguments)
    assert outcome.exit_code == 2
    assert message in " ".join(outcome.output.split())
