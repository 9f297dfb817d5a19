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
