"""The scripts in bench/ run to their end and write their report."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_host_extents(tmp_path: Path) -> None:
    trace, out = tmp_path / "trace.jsonl", tmp_path / "out.json"
    rows = [{"input_length": 1024, "hash_ids": [n % 5, n % 7 + 10]} for n in range(60)]
    trace.write_text("\n".join(json.dumps(row) for row in rows))
    script = [sys.executable, str(ROOT / "bench" / "host_extents.py"), str(trace)]
    options = ["--device-pages", "16", "--spares", "0", "--shares", "0.5", "--json", str(out)]
    subprocess.run([*script, *options], check=True, capture_output=True)
    report = json.loads(out.read_text())
    assert report["trace"] == "trace.jsonl" and report["device_pages"] == 16
    assert report["distinct_pages"] > 0 and len(report["cases"]) == 1


def test_warm_restart(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    script = [sys.executable, str(ROOT / "bench" / "warm_restart.py")]
    subprocess.run([*script, "--pages", "700", "--json", str(out)], check=True, capture_output=True)
    prompts, single = json.loads(out.read_text())["cases"]
    assert prompts["id"] == "tree/prompts/700" and single["nodes"] == 700
    assert prompts["verified"] and prompts["attach_s"] > prompts["scan_s"] > 0


def test_page_index(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    script = [sys.executable, str(ROOT / "bench" / "page_index.py")]
    options = ["--pages", "3000", "--rounds", "8", "--policies", "lru", "mru", "--json", str(out)]
    subprocess.run([*script, *options], check=True, capture_output=True)
    lru, mru = json.loads(out.read_text())["cases"]
    assert lru["id"] == "page_index/lru/3000" and mru["policy"] == "mru"
    assert lru["verified"] and lru["lookup_us"] > 0 and lru["store_evicting_us"] > 0
    refused = subprocess.run([*script, "--pages", "1500"], capture_output=True, text=True)
    assert refused.returncode == 2 and "multiples of 1000" in refused.stderr


def test_wait_cost(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    script = [sys.executable, str(ROOT / "bench" / "wait_cost.py"), "--device", "cpu"]
    options = ["--layers", "3", "--pages", "4", "9", "--rounds", "3", "--json", str(out)]
    subprocess.run([*script, *options], check=True, capture_output=True)
    cases = json.loads(out.read_text())["cases"]
    assert [case["id"] for case in cases] == [
        f"wait_cost/{layout}/auto/pages{pages}"
        for layout in ("page_first", "layer_first")
        for pages in (4, 9)
    ]
    for case in cases:
        assert case["on"]["verified"] and case["off"]["verified"]
        assert case["off"]["exposed_waits"] == case["off"]["exposed_seconds"] == 0
        assert case["on"]["share_of_peak"] > 0 and case["on"]["wait_layers_us"] > 0
    refused = subprocess.run([*script, "--pages", "0"], capture_output=True, text=True)
    assert refused.returncode == 2 and "1 or more" in refused.stderr
