"""``hicache doctor`` and ``hicache size`` beside a GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from gpu_pools import torch

COMMAND = [sys.executable, "-m", "hicache_nsa.cli"]


def report(tmp_path: Path, *arguments: str) -> dict[str, Any]:
    file = tmp_path / "out.json"
    command = [*COMMAND, *arguments, "--json", str(file)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert run.returncode == 0, run.stdout + run.stderr
    return dict(json.loads(file.read_text()))


def test_the_gpu_is_found_and_measured(tmp_path: Path) -> None:
    found = report(tmp_path, "doctor")
    lines = {line["name"]: line for line in found["lines"]}
    assert found["device"] == "cuda"
    assert {"driver", "gpu", "pcie", "bandwidth", "batch copy", "link curve"} <= set(lines)
    assert not [line for line in lines.values() if "could not be checked" in line["found"]]
    assert lines["gpu"]["found"].startswith(torch.cuda.get_device_name(0))
    assert found["measured"]["h2d_gbps"] > 1 and found["measured"]["d2h_gbps"] > 1


def test_a_cpu_beside_a_gpu(tmp_path: Path) -> None:
    found = report(tmp_path, "doctor", "--device", "cpu")
    lines = {line["name"]: line for line in found["lines"]}
    assert "not asked about" in lines["gpu"]["found"] and lines["driver"]["verdict"] == "ok"


def test_the_kept_curve_is_the_bandwidth_of_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    model = ("size", "--model", "deepseek-v3.2")
    assert "no link curve is kept" in report(tmp_path, *model)["bandwidth_unknown"]
    report(tmp_path, "bench", "link")
    kept = report(tmp_path, *model)["bandwidth"]
    shown = report(tmp_path, "doctor")["link_curve"]
    assert kept["source"] == f"link curve {shown['file']}"
    assert kept["bytes_per_second"] == pytest.approx(shown["h2d_gbps"] * 1e9)
