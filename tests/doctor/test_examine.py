"""Facts read as a whole, judged as a whole: nothing that breaks takes the command down."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from machines import CPU_MACHINE, GPU_MACHINE, changed

from hicache_nsa.doctor import CHECKS, FAIL, OK, WARN, Finding, examine, measuring, read_facts
from hicache_nsa.doctor.facts import INTERRUPTED, Broken, Measured, guarded

GPU_LINES = ["driver", "gpu", "pcie", "bandwidth", "batch copy", "link curve"]
MODULE = "hicache_nsa.doctor.reading"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Nothing is measured; the devices that it was asked of."""
    asked: list[str] = []

    def measure(device: str) -> Measured:
        asked.append(device)
        return Measured(10e9, 10e9, "not at all")

    monkeypatch.setattr(f"{MODULE}.measure", measure)
    return asked


def test_a_good_machine() -> None:
    report = examine(GPU_MACHINE)
    assert {name: line.verdict for name, line in report.lines.items()} == dict.fromkeys(CHECKS, OK)
    assert report.passed and report.count(OK) == len(CHECKS)
    assert examine(CPU_MACHINE).lines.keys() == set(CHECKS) - {
        "driver",
        "pcie",
        "batch copy",
        "link curve",
    }


def test_the_json() -> None:
    content = examine(changed(GPU_MACHINE, huge_pages={"transparent": "never"})).to_json()
    assert content["counts"] == {OK: len(CHECKS) - 1, WARN: 1, FAIL: 0}
    assert content["passed"] is True and content["interrupted"] is False
    assert content["measured"] == {"h2d_gbps": 54.5, "d2h_gbps": 54.7}
    assert content["link_curve"] == {
        "file": "curve.json",
        "age_seconds": 7200.0,
        "h2d_gbps": 54.0,
        "d2h_gbps": 54.9,
    }
    lines: Any = content["lines"]
    assert [line["name"] for line in lines] == list(CHECKS)
    for line in lines:
        assert line.keys() == {"name", "verdict", "found", "meaning", "fix"}
        assert (line["fix"] is None) == (line["verdict"] == OK)
        assert line["found"] and line["meaning"]
    assert examine(CPU_MACHINE).to_json()["link_curve"] is None


def test_a_failed_line_fails_the_report() -> None:
    report = examine(changed(GPU_MACHINE, cuda={"problem": "no GPU"}))
    assert not report.passed and report.count(FAIL) == 1


@pytest.mark.parametrize("group", [field.name for field in fields(GPU_MACHINE)][1:])
def test_what_could_not_be_read_is_a_warning(group: str) -> None:
    report = examine(replace(GPU_MACHINE, **{group: Broken(OSError("disk on fire"))}))
    broken = [line for line in report.lines.values() if "disk on fire" in line.found]
    assert broken
    for line in broken:
        assert line.verdict == WARN and line.found.startswith("could not be checked: OSError: ")
        assert "--json" in str(line.fix)
    assert report.passed and report.count(OK) > 0
    report.to_json()


@pytest.mark.parametrize("name", CHECKS)
def test_a_check_that_breaks_is_a_warning(name: str) -> None:
    def crash(facts: Any) -> Finding:
        raise ZeroDivisionError("a bug")

    report = examine(GPU_MACHINE, {**CHECKS, name: crash})
    assert report.lines[name].found == "could not be checked: ZeroDivisionError: a bug"
    assert report.count(OK) == len(CHECKS) - 1


def test_interrupted() -> None:
    ended = Measured(None, None, "", INTERRUPTED)
    report = examine(replace(GPU_MACHINE, measured=ended))
    assert report.interrupted and not report.passed and report.count(FAIL) == 0

    def stop() -> Any:
        raise KeyboardInterrupt

    report = examine(replace(GPU_MACHINE, hardware=guarded(stop)))
    assert report.interrupted and "interrupted" in report.lines["numa"].found


def test_the_device_is_the_gpu_that_the_build_can_use(
    machine: Any, quick: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    build: dict[str, Any] = {"cuda": True}
    software = replace(GPU_MACHINE.software, build=build)
    monkeypatch.setattr(f"{MODULE}.read_software", lambda: software)
    assert read_facts(None, machine.system).device == "cpu"
    assert machine.asked == []  # no nvidia-smi where there is no GPU
    machine.add_gpu()
    facts = read_facts(None, machine.system)
    assert facts.device == "cuda" and facts.hardware.smi and len(machine.asked) == 1
    assert read_facts("cpu", machine.system).device == "cpu"
    assert read_facts("cuda:1", machine.system).device == "cuda:1"
    build["cuda"] = False
    assert read_facts(None, machine.system).device == "cpu"
    assert quick == ["cpu", "cuda", "cpu", "cuda:1", "cpu"]


def test_facts_of_a_fake_machine(machine: Any, quick: list[str]) -> None:
    facts = read_facts("cpu", machine.system)
    assert facts.locked.limit == 65_536 and facts.curve is None
    assert facts.huge_pages.transparent == "madvise"
    assert facts.shared_memory.total == 128 << 30
    report = examine(facts)
    assert report.lines["memory"].verdict == OK and report.lines["numa"].found == "one node"
    assert report.lines["memlock"].found == "64.00 KiB (RLIMIT_MEMLOCK)"


def test_every_reader_may_break(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*arguments: Any, **more: Any) -> Any:
        raise LookupError("a bug")

    names = ["software", "hardware", "cuda", "memory", "numa", "huge_pages", "shared_memory"]
    for name in [*(f"read_{name}" for name in names), "measure"]:
        monkeypatch.setattr(f"{MODULE}.{name}", crash)
    report = examine(read_facts(None, machine.system))
    assert report.device == "cpu"
    found = {name: line.found for name, line in report.lines.items()}
    whole = {name for name, text in found.items() if "LookupError: a bug" not in text}
    assert whole == {"memlock"} and report.passed


@pytest.mark.parametrize("error", [RuntimeError("no memory"), MemoryError(), KeyboardInterrupt()])
def test_a_measurement_that_fails(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> Measured:
        raise error

    monkeypatch.setattr(measuring, "measure_cpu", fail)
    monkeypatch.setattr(measuring, "measure_gpu", fail)
    for device in ("cpu", "cuda"):
        found = measuring.measure(device)
        wanted = {"RuntimeError": "no memory", "KeyboardInterrupt": INTERRUPTED}
        assert found.h2d is None
        assert found.problem == wanted.get(type(error).__name__, type(error).__name__)


def test_a_finding_has_a_fix_exactly_where_it_is_needed() -> None:
    with pytest.raises(ValueError, match="warn with fix=None"):
        Finding(WARN, "x", "y")
    with pytest.raises(ValueError, match="ok with fix='z'"):
        Finding(OK, "x", "y", "z")
    with pytest.raises(ValueError, match="verdict='bad' is unknown; known: ok, warn, fail"):
        Finding("bad", "x", "y", "z")
