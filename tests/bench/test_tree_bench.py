"""``hicache bench tree`` at small sizes: its cases, what it compares matches with, bad usage."""

from __future__ import annotations

import gc
import json
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from hicache_nsa.bench.tree import bench as bench_module
from hicache_nsa.bench.tree import cases, peers
from hicache_nsa.bench.tree.memory import AGENTIC, LEAVES, measure_memory
from hicache_nsa.bench.tree.serving import insert_leaves, serve
from hicache_nsa.bench.tree.settings import PEERS, TreeSettings
from hicache_nsa.bench.tree.subject import HiCacheSubject
from hicache_nsa.bench.tree.timing import collector, medians, spread, timed
from hicache_nsa.bench.tree.workloads import Workloads, cached_before
from hicache_nsa.cli.app import hicache
from hicache_nsa.errors import HiCacheError, InvariantError

SIZES = {
    "shots": 2, "questions": 3, "requests": 20, "sessions": 2, "turns": 5,
    "session_tokens": 2_000, "long_tokens": 2_000, "leaves": 60, "evict": 20, "rounds": 1,
}  # fmt: skip
SMALL = [text for name, n in SIZES.items() for text in (f"--{name.replace('_', '-')}", str(n))]
SMALL += ["--tokenizer", "bytes"]
SETTINGS = TreeSettings(**SIZES, tokenizer="bytes")  # type: ignore[arg-type]
ALL = [
    *("match/few_shot", "match/conversation", "match/agentic", "match/long"),
    *("insert/conversation/host", "insert/conversation/device", "replay/conversation"),
    *("evict/one", "evict/many", "memory/leaf", "memory/agentic"),
    *("pauses/gc_on", "pauses/gc_off"),
]
TRACED = [id for id in ALL if "conversation" in id]


def invoke(*arguments: str) -> Result:
    command = ["bench", "tree", *SMALL, *arguments]
    return CliRunner().invoke(hicache, command, prog_name="hicache")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Conversations whose first blocks are shared."""
    rows = [{"input_length": 1_100 + n, "hash_ids": [n % 2, 10 + n % 5, 30 + n]} for n in range(25)]
    path = tmp_path / "trace.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return path


def test_all_cases_with_table_and_json(trace: Path, tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    outcome = invoke("--trace", str(trace), "--json", str(file))
    assert outcome.exit_code == 0, outcome.output
    written = json.loads(file.read_text(encoding="utf-8"))
    assert [case["id"] for case in written["cases"]] == ALL
    assert written["settings"]["trace"] == "trace.jsonl" and written["left_out"] == {}
    for case in written["cases"]:
        assert case["peer"] is None and case["ratio"] is None and case["verified"] is True
        assert case["figure"] in case and case["rounds"] == 1
        assert case["case"] in outcome.output
    found = {case["id"]: case for case in written["cases"]}
    assert found["match/conversation"]["p99_by_p50"] >= 1
    assert found["replay/conversation"]["requests"] == 20
    assert found["insert/conversation/host"]["settle_p50_us"] > 0
    assert found["evict/many"]["pages"] == 20
    assert -1 < found["memory/leaf"]["gc_objects_per_leaf"] < 1  # the collector sees no leaf
    assert found["pauses/gc_on"]["insert_calls"] == found["pauses/gc_on"]["calls"] == 60


def test_without_a_trace_its_cases_are_left_out_and_said() -> None:
    outcome = invoke("--filter", "[mr]*/[cl]o*", "--json", "-")
    assert outcome.exit_code == 0, outcome.output
    written = json.loads(outcome.output)
    assert [case["id"] for case in written["cases"]] == ["match/long"]
    assert list(written["left_out"]) == ["match/conversation", "replay/conversation"]
    assert "Left out: match/conversation: give --trace" in invoke("--filter", "match/*").output


def test_prompts_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    rows = [{"question": f"{n} and {n}?", "answer": "6 " * 40} for n in range(5)]
    file.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    outcome = invoke("--filter", "match/few_shot", "--prompts", str(file), "--json", "-")
    written = json.loads(outcome.output)
    assert written["settings"]["prompts"] == "questions.jsonl"
    assert 200 < written["cases"][0]["mean_tokens"] < 300


# ---- what matches and trees are compared with ----


def prompts(seed: int = 1) -> list[np.ndarray]:
    """Random prompts that share beginnings of any length."""
    rng = np.random.default_rng(seed)
    made = [rng.integers(0, 9, 300)]
    for _ in range(30):
        other = made[int(rng.integers(len(made)))]
        more = rng.integers(0, 9, int(rng.integers(0, 400)))
        made.append(np.concatenate([other[: int(rng.integers(len(other) + 1))], more]))
    return made


def test_the_reference_is_the_longest_common_prefix_of_whole_pages() -> None:
    made = prompts()
    for index, want in enumerate(cached_before(made)):
        tokens = made[index]
        shared = [0]
        for earlier in made[:index]:
            most = min(len(earlier), len(tokens)) // 64
            same = [n for n in range(1, most + 1) if (earlier[: n * 64] == tokens[: n * 64]).all()]
            shared.append(64 * max(same, default=0))
        assert want == max(shared)


def test_a_subject_serves_what_the_reference_says() -> None:
    made = prompts(2)
    expected = cached_before(made)
    pages = sum(len(tokens) // 64 for tokens in made) - sum(expected) // 64
    subject = HiCacheSubject(pages, pages)
    served = serve(subject, made, expected)
    assert len(served.matches) == len(served.inserts) == len(made)
    subject.check(pages)
    with pytest.raises(InvariantError, match="cached device pages"):
        subject.check(pages - 1)
    with pytest.raises(InvariantError, match="tokens matched: "):
        serve(subject, made[:1], [0])
    subject.close()


def test_agentic_sessions_are_deep() -> None:
    workload = Workloads(SETTINGS).agentic
    assert len(workload.inserted) == 2 * 5 and max(map(len, workload.inserted)) == 2_000
    last = workload.inserted[-1]
    mine = [tokens for tokens in workload.inserted if (tokens == last[: len(tokens)]).all()]
    lengths = [len(tokens) for tokens in mine]
    assert lengths == sorted(lengths) and len(lengths) == 5
    assert workload.pages < sum(len(tokens) // 64 for tokens in workload.inserted)


def test_a_wrong_match_ends_it_with_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = HiCacheSubject.matched_tokens

    def one_page_less(subject: HiCacheSubject, result: Any) -> int:
        return max(found(subject, result) - 64, 0)

    monkeypatch.setattr(HiCacheSubject, "matched_tokens", one_page_less)
    file = tmp_path / "out.json"
    outcome = invoke("--filter", "match/long", "--json", str(file))
    assert outcome.exit_code == 1 and "FAILED" in outcome.output
    assert "tokens matched: " in json.loads(file.read_text(encoding="utf-8"))["error"]


@pytest.mark.parametrize("case", ["evict/one", "evict/many"])
def test_pages_that_are_not_evicted_are_noticed(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HiCacheSubject, "evict", lambda subject, pages: pages)
    outcome = invoke("--filter", case)
    assert outcome.exit_code == 1 and "tokens matched: 64 != 0" in outcome.output


# ---- figures ----


def test_spread_and_medians() -> None:
    found = spread([1_000 * n for n in range(1, 102)], "a_")
    assert found == {"a_p50_us": 51, "a_p99_us": 100, "a_longest_us": 101, "a_calls": 101}
    assert medians([{"x": 3}, {"x": 1}, {"x": 2}]) == {"x": 2}
    result, took = timed(max, (3, 4))
    assert result == 4 and took > 0


def test_the_collector_is_as_before() -> None:
    assert gc.isenabled()
    with collector(on=False):
        assert not gc.isenabled()
        with collector(on=True):
            assert gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


@pytest.mark.parametrize(("workload", "least"), [(LEAVES, 3_000), (AGENTIC, 50)])
def test_memory_grows_with_what_is_kept(workload: str, least: int) -> None:
    """At least the tokens' own bytes, 4 each."""
    settings = TreeSettings(leaves=3_000, sessions=4, turns=10, session_tokens=40_000)
    found = measure_memory("hicache", workload, settings)
    assert found["pages"] >= least
    assert found["rss_bytes"] > 0.8 * 64 * 4 * found["pages"]


def test_a_process_that_fails_says_why() -> None:
    with pytest.raises(HiCacheError, match=r"of leaves failed: .* no tree is called 'nobody'"):
        measure_memory("nobody", LEAVES, SETTINGS)


# ---- peers ----


def test_a_peer_is_measured_in_turn_and_compared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made: list[str] = []

    def make(name: str) -> Any:
        made.append(name)
        return HiCacheSubject

    monkeypatch.setattr(cases, "make_subject", make)
    monkeypatch.setattr(bench_module, "require_peers", lambda names: {"sglang": "0.0"})
    file = tmp_path / "out.json"
    outcome = invoke(
        "--peer", "sglang", "--filter", "match/long", "--rounds", "2", "--json", str(file)
    )
    assert outcome.exit_code == 0, outcome.output
    names = ["hicache", *PEERS["sglang"]]
    assert made == names * 2
    written = json.loads(file.read_text(encoding="utf-8"))
    assert written["environment"]["sglang"] == "0.0"
    ours, *others = written["cases"]
    assert [case["id"] for case in others] == [f"match/long/{name}" for name in PEERS["sglang"]]
    for case in others:
        assert case["case"] == "match/long" and case["peer"] in outcome.output
        assert case["ratio"] == pytest.approx(ours["p50_us"] / case["p50_us"])
    assert "ratio: ours by the peer's" in outcome.output


def test_a_peer_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(peers.metadata, "version", version)
    outcome = invoke("--peer", "sglang", "--filter", "match/long")
    assert outcome.exit_code == 2
    told = " ".join(outcome.output.split())
    assert "--peer sglang: sglang can't be used here" in told
    assert "install sglang==0.5.23 with --no-deps" in told and "requirements.txt" in told


BAD: Sequence[tuple[list[str], str]] = [
    (["--evict", "60"], "--evict 60 must be less than --leaves 60"),
    (["--filter", "x"], "--filter 'x' matches no case; there is, for example, 'match/few_shot'"),
    (["--filter", "replay/*"], "no case is left: replay/conversation: give --trace"),
    (["--trace", "no-such-file"], "no-such-file"),
    (["--rounds", "0"], "--rounds"),
    (["--peer", "nobody"], "nobody"),
    (["--tokenizer", "no-such-file.json"], "no such file"),
    (["--json", "no-such-folder/out.json"], "cannot be written"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_what_is_refused(arguments: list[str], message: str) -> None:
    outcome = invoke(*arguments)
    assert outcome.exit_code == 2
    assert message in " ".join(outcome.output.split())


def test_a_broken_trace_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    (tmp_path / "trace.jsonl").write_text("{", encoding="utf-8")
    outcome = invoke("--trace", str(tmp_path / "trace.jsonl"))
    assert outcome.exit_code == 2 and "not a line of JSON" in " ".join(outcome.output.split())
    (tmp_path / "trace.jsonl").write_text("", encoding="utf-8")
    outcome = invoke("--trace", str(tmp_path / "trace.jsonl"))
    assert outcome.exit_code == 2 and "no prompt of a page" in " ".join(outcome.output.split())


def test_leaves_are_inserted_one_by_one() -> None:
    leaves = Workloads(SETTINGS).leaves
    subject = HiCacheSubject(len(leaves))
    assert len(insert_leaves(subject, list(leaves))) == 60
    subject.check(60)
    subject.close()
