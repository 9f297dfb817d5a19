"""``hicache bench tree --peer sglang`` with SGLang's own trees, at small sizes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from conftest import STUBS
from hicache_nsa.bench.tree.settings import PEERS
from hicache_nsa.cli.app import hicache

SIZES = {
    "shots": 2, "questions": 3, "sessions": 2, "turns": 5, "session-tokens": 2_000,
    "long-tokens": 2_000, "leaves": 60, "evict": 20, "rounds": 1,
}  # fmt: skip


@pytest.fixture
def trees() -> list[str]:
    """Names of SGLang's trees; skips where it isn't installed."""
    pytest.importorskip("sglang.srt", reason="SGLang isn't installed; `make test-sglang` has it")
    return list(PEERS["sglang"])


def test_each_case_is_served_by_each_tree(
    trees: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(STUBS))  # for the processes that measure memory
    trace = tmp_path / "trace.jsonl"
    rows = [{"input_length": 1_100 + n, "hash_ids": [n % 2, 10 + n % 5, 30 + n]} for n in range(9)]
    trace.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    sizes = [text for name, n in SIZES.items() for text in (f"--{name}", str(n))]
    options = ["--peer", "sglang", "--tokenizer", "bytes", "--trace", str(trace)]
    command = ["bench", "tree", *options, *sizes, "--json", str(tmp_path / "out.json")]
    outcome = CliRunner().invoke(hicache, command, prog_name="hicache")
    assert outcome.exit_code == 0, outcome.output
    written = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert written["environment"]["sglang"].startswith("0.5.23")
    ids = [case["id"] for case in written["cases"] if case["peer"] is None]
    assert len(ids) == 13
    for id in ids:
        peers = {case["peer"]: case for case in written["cases"] if case["case"] == id}
        alone = id == "insert/conversation/host"  # the others have no host tier here
        assert list(peers) == [None, *([] if alone else trees)]
        ours = peers.pop(None)
        for case in peers.values():
            assert case["ratio"] == pytest.approx(ours[case["figure"]] / case[case["figure"]])


def test_a_tree_of_sglang_is_checked(trees: list[str]) -> None:
    import numpy as np

    from hicache_nsa.bench.tree.serving import serve
    from hicache_nsa.bench.tree.sglang_subject import SglangSubject
    from hicache_nsa.errors import InvariantError

    tokens = np.arange(640)
    for name in trees:
        subject = SglangSubject(name, 12)
        serve(subject, [tokens[:300], tokens], [0, 256])
        subject.check(10)
        with pytest.raises(InvariantError, match="cached tokens of SGLang: 640 != 576"):
            subject.check(9)
        with pytest.raises(InvariantError, match="tokens matched: 640 != 0"):
            serve(subject, [tokens], [0])
        subject.close()
