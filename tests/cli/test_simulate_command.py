"""``hicache simulate``: its JSON and table, bad usage, ^C, the picture."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hicache_nsa.cli import progress
from hicache_nsa.cli.app import hicache
from hicache_nsa.formats.models import model_format
from hicache_nsa.sizing import Bandwidth

COMMAND = [sys.executable, "-m", "hicache_nsa.cli", "simulate"]
CONTRACT = {
    "policy", "device_bytes", "host_bytes", "requests", "prompt_tokens", "device_hit_tokens",
    "host_hit_tokens",
}  # fmt: skip
PAGE = 3_076_352
NEEDS_MATPLOTLIB = pytest.mark.skipif(
    find_spec("matplotlib") is None, reason="needs matplotlib (the extra plot)"
)


def conversations(count: int = 6, turns: int = 4) -> list[dict[str, Any]]:
    """Block ids of conversations, turn by turn, each turn a block longer."""
    rows = []
    for turn, who in product(range(1, turns + 1), range(count)):
        ids = [who * 100 + block for block in range(turn)]
        rows.append(
            {"timestamp": 0, "input_length": 512 * turn, "output_length": 1, "hash_ids": ids}
        )
    return rows


def write(file: Path, rows: list[Any]) -> Path:
    text = "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows)
    file.write_text(text, encoding="utf-8")
    return file


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return write(tmp_path / "trace.jsonl", conversations())


def invoke(*arguments: object) -> Result:
    given = ["simulate", *(str(one) for one in arguments)]
    return CliRunner().invoke(hicache, given, prog_name="hicache")


def written_by(file: Path, *arguments: object) -> dict[str, Any]:
    outcome = invoke(*arguments, "--json", file)
    assert outcome.exit_code == 0, outcome.output
    return dict(json.loads(file.read_text(encoding="utf-8")))


def test_table_and_json(trace: Path, tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    run = subprocess.run([*COMMAND, trace, "--json", file], capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")
    assert "\x1b" not in run.stdout
    written = json.loads(file.read_text(encoding="utf-8"))
    assert {"version", "command", "environment", "results", "interrupted"} <= set(written)
    assert written["interrupted"] is False and written["estimate"] is None
    assert written["format"] == {
        "name": "dsa/fp8_ds_mla", "page_size": 64, "page_bytes": PAGE, "token_bytes": 48_068,
    }  # fmt: skip
    sizes = [(row["device_bytes"], row["host_bytes"]) for row in written["results"]]
    assert sizes == [(32 << 30, 0), (32 << 30, 64 << 30), (32 << 30, 256 << 30)]
    for row in written["results"]:
        assert row.keys() >= CONTRACT
        assert (row["policy"], row["requests"]) == ("lru", 24)
        assert row["prompt_tokens"] == 6 * 512 * (1 + 2 + 3 + 4)
        assert row["device_hit_tokens"] == row["bound_hit_tokens"] == 6 * 512 * (1 + 2 + 3)
        assert row["host_hit_tokens"] == 0
        assert row["missed_tokens"] == {"cold": 6 * 512 * 4, "evicted": 0, "flushed": 0}
    assert "60.0%" in run.stdout and "24 requests, 30,720 prompt tokens" in run.stdout
    assert "Policy lru, write policy write_through." in run.stdout


def test_all_combinations(trace: Path, tmp_path: Path) -> None:
    policies, writes = ["lru", "mru"], ["write_through", "write_back"]
    options = ["--policy", ",".join(policies), "--write-policy", ",".join(writes)]
    options += ["--device", f"{30 * PAGE},{40 * PAGE}", "--host", f"0,{60 * PAGE}"]
    written = written_by(tmp_path / "out.json", trace, *options)
    found = [
        (row["device_bytes"], row["policy"], row["write_policy"], row["host_bytes"])
        for row in written["results"]
    ]
    assert found == list(product([30 * PAGE, 40 * PAGE], policies, writes, [0, 60 * PAGE]))
    assert all(
        row["device_hit_tokens"] + row["host_hit_tokens"] <= row["bound_hit_tokens"]
        for row in written["results"]
    )


def test_a_narrow_terminal_loses_nothing(
    trace: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")  # rich takes stdout for a terminal
    text = invoke(trace, "--policy", "lru,fifo", "--prefill-rate", "9", "--bandwidth", "1").output
    assert "\u2026" not in text
    assert all(word in text for word in ("write_through", "256.00 GiB", "18,432", "estimate"))


def test_no_device_tier(trace: Path, tmp_path: Path) -> None:
    options = ["--device", "0", "--host", "0,1GiB"]
    none, host = written_by(tmp_path / "out.json", trace, *options)["results"]
    assert (none["device_hit_tokens"], none["host_hit_tokens"]) == (0, 0)
    assert (host["device_hit_tokens"], host["host_hit_tokens"]) == (0, 6 * 512 * (1 + 2 + 3))
    assert "is lent what a running request needs beyond it, 32 pages" in " ".join(
        invoke(trace, *options).output.split()
    )


def test_flushes(trace: Path, tmp_path: Path) -> None:
    options = ["--host", "0,1GiB", "--flush-at", "12,18"]
    none, host = written_by(tmp_path / "out.json", trace, *options)["results"]
    assert (none["device_hit_tokens"], none["host_hit_tokens"]) == (6 * 512, 0)
    assert (host["device_hit_tokens"], host["host_hit_tokens"]) == (6 * 512, 6 * 512 * (2 + 3))
    assert [none["bound_hit_tokens"], host["bound_hit_tokens"]] == [6 * 512, 6 * 512 * (1 + 2 + 3)]
    assert "flushed after requests: 12, 18." in invoke(trace, *options).output


@pytest.mark.parametrize(
    ("options", "format"),
    [
        (["--model", "glm-5"], model_format("glm-5")),
        (["--kv-dtype", "bf16"], model_format("deepseek-v3.2", "bf16")),
        (["--format", "bf16"], model_format("deepseek-v3.2", "bf16")),
        (["--format", "mooncake", "--format", "dsa/fp8"], model_format("deepseek-v3.2", "fp8")),
        (["--model", "llama-3.1-8b", "--page-size", "16"], model_format("llama-3.1-8b", None, 16)),
        (["--config", "config.json"], model_format("qwen3-8b")),
    ],
)
def test_the_model_says_how_large_a_page_is(
    options: list[str], format: Any, trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    qwen = {"num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8}
    write(tmp_path / "config.json", [{**qwen, "head_dim": 128}])
    written = written_by(tmp_path / "out.json", trace, *options)
    assert written["format"] == {
        "name": format.name,
        "page_size": format.page_size,
        "page_bytes": format.page_bytes,
        "token_bytes": format.token_bytes,
    }


def test_an_estimate(trace: Path, tmp_path: Path) -> None:
    options = ["--prefill-rate", "10000", "--bandwidth", "50GB/s", "--device", "0"]
    written = written_by(tmp_path / "out.json", trace, *options, "--host", "0,1GiB")
    assert written["estimate"]["bandwidth_bytes_per_second"] == 50e9
    assert written["estimate"]["bandwidth_source"] == "--bandwidth"
    assert written["estimate"]["stated"].startswith("an estimate")
    none, host = written["results"]
    assert none["ttft_ms_estimate"]["mean"] == pytest.approx(512 * 2.5 / 10)
    assert 512 / 10 < host["ttft_ms_estimate"]["mean"] < 512 / 10 + 1  # a block, and little more
    assert set(host["ttft_ms_estimate"]) == {"mean", "p50", "p90"}
    text = " ".join(invoke(trace, *options).output.split())
    assert "TTFT is an estimate from 50.0 GB/s (--bandwidth) and 10,000 tokens/s" in text


def test_the_measured_bandwidth(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hicache_nsa.cli import simulate_command

    monkeypatch.setattr(simulate_command, "kept_bandwidth", lambda: Bandwidth(40e9, "a curve"))
    outcome = invoke(trace, "--prefill-rate", "10000")
    assert outcome.exit_code == 0 and "40.0 GB/s (a curve)" in outcome.output


def test_without_a_measured_bandwidth(trace: Path, no_gpu: str) -> None:
    outcome = invoke(trace, "--prefill-rate", "10000")
    assert outcome.exit_code == 2
    assert "--prefill-rate needs a bandwidth:" in outcome.output
    assert "Give --bandwidth" in " ".join(outcome.output.split())


BAD_OPTIONS: list[tuple[list[str], str]] = [
    (["--host", "-1"], "'--host': size='-1' is not a size"),
    (["--host", "0,abc"], "'--host': size='abc' is not a size"),
    (["--host", ""], "'--host': size='' is not a size"),
    (["--host", "1MiB"], "--host: 1048576 bytes are below one page"),
    (["--host", "2EiB"], "'--host': size='2EiB' is not a size"),
    (["--host", "2048PiB"], "'--host': '2048PiB' is more than 1 EiB"),
    (["--host", "1024PiB"], "--host: 1152921504606846976 bytes are"),
    (["--device", "3076351"], "--device: 3076351 bytes are below one page"),
    (["--device", "nan"], "'--device': size='nan' is not a size"),
    (["--policy", "best"], "'--policy': 'best' is unknown; known: lru"),
    (["--policy", "lru,"], "'--policy': '' is unknown"),
    (["--write-policy", "never"], "'--write-policy': 'never' is unknown; known: write_through"),
    (["--write-threshold", "0"], "--write-threshold"),
    (["--flush-at", "-1"], "'--flush-at': '-1' must be a whole number"),
    (["--flush-at", "1.5"], "'--flush-at': '1.5' must be a whole number"),
    (["--flush-at", "9" * 5000], "must be a whole number from 0"),
    (["--flush-at", "25"], "a flush at request 25, but the trace has 24 requests"),
    (["--format", "csv"], "'--format': 'csv' is unknown; of traces: mooncake, blocks, prompts"),
    (["--format", "bf16", "--format", "fp8"], "'--format': bf16 and fp8: give one"),
    (["--format", "bf16", "--kv-dtype", "fp8"], "give --kv-dtype fp8 or --format bf16, not both"),
    (["--format", "mla/bf16"], "--format mla/bf16: pages of this model are dsa/bf16"),
    (["--format", "prompts"], "trace.jsonl:1: no prompt"),
    (["--format", "blocks"], "--block-size"),
    (["--block-size", "16"], "trace.jsonl:1: 1 blocks of 16 tokens for 512 tokens, expected 32"),
    (["--block-size", "0"], "--block-size"),
    (["--page-size", "0"], "--page-size"),
    (["--model", "gpt"], "--model"),
    (["--model", "qwen3-8b", "--kv-dtype", "fp8_ds_mla"], "--kv-dtype: "),
    (["--model", "qwen3-8b", "--config", "."], "give --model or --config, not both"),
    (["--config", "nowhere.json"], "nowhere.json"),
    (["--shots", "2"], '--shots and --own-shots are for prompts with "question"'),
    (["--shots", "-1"], "--shots"),
    (["--limit", "0"], "--limit"),
    (["--repeat", "0"], "--repeat"),
    (["--bandwidth", "50"], "give --prefill-rate, too"),
    (["--bandwidth", "0", "--prefill-rate", "1"], "'--bandwidth'"),
    (["--bandwidth", "-5", "--prefill-rate", "1"], "'--bandwidth'"),
    (["--prefill-rate", "0"], "'--prefill-rate'"),
    (["--prefill-rate", "inf"], "'--prefill-rate'"),
    (["--json", "no-such-folder/out.json"], "cannot be written"),
    (["--plot", "no-such-folder/out.png"], "cannot be written"),
    (["--tokenizer", "nowhere", "--format", "prompts"], "no prompt"),
    (["--nothing"], "--nothing"),
]


@pytest.mark.parametrize(("options", "message"), BAD_OPTIONS)
def test_bad_usage(options: list[str], message: str, trace: Path) -> None:
    outcome = invoke(trace, *options)
    assert outcome.exit_code == 2, outcome.output
    assert message in " ".join(outcome.output.split())
    assert "Traceback" not in outcome.output


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "is empty: it has no line with a request"),
        (["", " "], "is empty"),
        ([conversations()[0], "{"], "trace.jsonl:2: not a line of JSON"),
        ([{"a": 1}], "trace.jsonl:1: an unknown format"),
        (["a,b", "1,2"], "trace.jsonl:1: not a line of JSON"),
        ([{"input_length": -5, "hash_ids": []}], 'trace.jsonl:1: "input_length" must be tokens'),
        ([{"prompt": "x", "tokens": None}], 'trace.jsonl:1: "tokens" must be a list'),
        ([{"question": "x"}, {"question": 1}], 'trace.jsonl:2: "question" is missing'),
    ],
)
def test_broken_traces(rows: list[Any], message: str, tmp_path: Path) -> None:
    outcome = invoke(write(tmp_path / "trace.jsonl", rows))
    assert outcome.exit_code == 2, outcome.output
    assert message in " ".join(outcome.output.split())


def test_no_trace(tmp_path: Path) -> None:
    for arguments in ([], [tmp_path / "nowhere"], [tmp_path]):
        outcome = invoke(*arguments)
        assert outcome.exit_code == 2
        assert "TRACE" in outcome.output


def test_a_tokenizer_that_is_not_there(tmp_path: Path) -> None:
    outcome = invoke(write(tmp_path / "t.jsonl", [{"prompt": "x"}]), "--tokenizer", "nowhere")
    assert outcome.exit_code == 2 and "--tokenizer nowhere" in outcome.output


def test_prompts_without_a_whole_page(tmp_path: Path) -> None:
    file = write(tmp_path / "t.jsonl", [{"tokens": []}, {"tokens": []}])
    outcome = invoke(file)
    assert outcome.exit_code == 0, outcome.output
    assert "2 requests, 0 prompt tokens" in outcome.output


def test_interrupt_prints_what_is_there(
    trace: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls: list[str] = []

    @contextmanager
    def interrupting(total: int) -> Iterator[progress.Step]:
        def step(label: str) -> None:
            calls.append(label)
            if len(calls) == 30:  # 24 requests of the first case, 6 of the second
                raise KeyboardInterrupt

        yield step

    monkeypatch.setattr(progress, "progress_bar", interrupting)
    file = tmp_path / "out.json"
    outcome = invoke(trace, "--json", file)
    assert outcome.exit_code == 1
    assert "Interrupted: the figures cover what was done until then." in outcome.output
    written = json.loads(file.read_text(encoding="utf-8"))
    assert written["interrupted"] is True
    assert [row["requests"] for row in written["results"]] == [24, 6]
    assert written["results"][1]["prompt_tokens"] == 6 * 512
    assert written["results"][1]["bound_hit_tokens"] is None
    assert written["results"][1]["missed_tokens"] is None


def test_a_signal_ends_it_with_what_it_has(tmp_path: Path) -> None:
    rows = [{"tokens": list(range(n, n + 640))} for n in range(3000)]
    file = write(tmp_path / "t.jsonl", rows)
    options = ["--repeat", "1000", "--host", "1GiB", "--json", str(tmp_path / "out.json")]
    code = (
        "import sys, threading, os, signal; from hicache_nsa.simulate import serving\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "one = serving._serve_one\n"
        "def serve(cache, pages, seen=[]):\n"
        "    seen.append(1)\n"
        "    if len(seen) == 4000: os.kill(os.getpid(), signal.SIGINT)\n"
        "    return one(cache, pages)\n"
        "serving._serve_one = serve\n"
        "from hicache_nsa.cli import main; main()"
    )
    command = [sys.executable, "-c", code, "simulate", str(file), *options]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 1, run.stderr
    assert "Interrupted" in run.stdout and "Traceback" not in run.stderr
    written = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    (row,) = written["results"]
    assert written["interrupted"] is True and 3990 <= row["requests"] <= 4000


def test_missing_rich_names_the_pip_command(trace: Path) -> None:
    script = "import sys; sys.modules['rich'] = None; sys.argv[0] = 'hicache'\n"
    script += "from hicache_nsa.cli import main; main()"
    run = subprocess.run(
        [sys.executable, "-c", script, "simulate", trace], capture_output=True, text=True
    )
    assert run.returncode == 1
    assert "simulate needs rich: run pip install 'hicache-nsa[plot]'" in run.stderr
    assert "Traceback" not in run.stderr


def test_missing_matplotlib_names_the_pip_command(trace: Path, tmp_path: Path) -> None:
    script = "import sys; sys.modules['matplotlib'] = None; sys.argv[0] = 'hicache'\n"
    script += "from hicache_nsa.cli import main; main()"
    command = [sys.executable, "-c", script, "simulate", trace]
    picture = ["--plot", str(tmp_path / "out.png")]
    run = subprocess.run([*command, *picture], capture_output=True, text=True)
    assert run.returncode == 1
    assert "--plot needs matplotlib: run pip install 'hicache-nsa[plot]'" in run.stderr
    assert not (tmp_path / "out.png").exists()
    assert subprocess.run(command, capture_output=True).returncode == 0


@NEEDS_MATPLOTLIB
def test_the_picture(trace: Path, tmp_path: Path) -> None:
    for name in ("out.png", "out.svg"):
        outcome = invoke(trace, "--policy", "lru,fifo", "--plot", tmp_path / name)
        assert outcome.exit_code == 0, outcome.output
        assert (tmp_path / name).stat().st_size > 1000
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")


@NEEDS_MATPLOTLIB
@pytest.mark.parametrize("name", ["out.xyz", "out", "-"])
def test_a_picture_of_an_unknown_kind(name: str, trace: Path, tmp_path: Path) -> None:
    target = name if name == "-" else str(tmp_path / name)
    outcome = invoke(trace, "--plot", target)
    assert outcome.exit_code == 2
    assert "the file's ending must be one of" in " ".join(outcome.output.split())


def test_json_on_stdout_is_all_of_it(trace: Path) -> None:
    outcome = invoke(trace, "--json", "-")
    assert len(json.loads(outcome.stdout)["results"]) == 3
