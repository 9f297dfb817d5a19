"""Two ranks of SGLang's cache whose linkers don't have the same host pages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sglang.srt", reason="SGLang isn't installed; `make test-sglang` has it")

HERE = Path(__file__).parent


def test_f17_ranks_with_different_host_pools_make_the_same_decisions(tmp_path: Path) -> None:
    """One rank has less room: its offloads fail and its pages go where the other's do not.

    Both serve every request alike, with the bytes that the pages should have, and see the same
    results of the same offloads.
    """
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", ""), str(HERE / "stubs")])
    script, meeting = str(HERE / "rank_process.py"), str(tmp_path / "meeting")
    ranks = [
        subprocess.Popen(
            [sys.executable, script, str(rank), pages, meeting],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )
        for rank, pages in enumerate(["24", "5"])
    ]
    outputs = [rank.communicate(timeout=110) for rank in ranks]
    for rank, (_, errors) in zip(ranks, outputs, strict=True):
        assert rank.returncode == 0, errors[-3000:]
    one, two = (json.loads(text.strip().splitlines()[-1]) for text, _ in outputs)
    assert one == two
    assert one["host"] > 10
    assert set(one["results"]) == {True, False}
