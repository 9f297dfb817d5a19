"""``hicache size``: figures worked out by hand, sources named, bad usage refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hicache_nsa import _core, link_curve
from hicache_nsa.cli.app import hicache
from hicache_nsa.formats.models import MODELS
from hicache_nsa.sizing import NoBandwidth, kept_bandwidth

V32 = ("--model", "deepseek-v3.2")
RATES = ("--bandwidth", "50", "--prefill-rate", "10000")
GIB = 1 << 30


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(hicache, ["size", *arguments], prog_name="hicache")


def report(*arguments: str) -> dict[str, Any]:
    outcome = invoke(*arguments, "--json", "-")
    assert outcome.exit_code == 0, outcome.output
    return json.loads(outcome.stdout)


@pytest.fixture(autouse=True)
def no_curve(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without a GPU, whatever runs the tests."""

    def refuse(device: str) -> str:
        raise RuntimeError("There is no GPU.")

    monkeypatch.setattr(
        link_curve,
        "_core",
        SimpleNamespace(cuda_device_identity=refuse, build_info=_core.build_info),
    )


def test_json_has_every_figure() -> None:
    found = report(*V32, "--host-size", "50GiB", "--device-size", "4000000", *RATES)
    assert {"version", "command", "environment"} <= set(found)
    wanted = {
        "model": "deepseek-v3.2",
        "source": "deepseek-ai/DeepSeek-V3.2",
        "format": "dsa/fp8_ds_mla",
        "layers": 61,
        "page_size": 64,
        "page_bytes": 3_076_352,
        "token_bytes": 48_068,
        "bandwidth": {"bytes_per_second": 50e9, "source": "--bandwidth"},
        "bandwidth_unknown": None,
    }
    assert {key: found[key] for key in wanted} == wanted
    assert found["buffers"] == [
        {"name": "latent", "layers": 61, "token_bytes": 61 * 656, "page_bytes": 61 * 64 * 656},
        {"name": "index_k", "layers": 61, "token_bytes": 61 * 132, "page_bytes": 61 * 8448},
    ]
    assert found["tiers"] == [
        {"tier": "device", "bytes": 4_000_000, "pages": 1, "tokens": 64, "unused_bytes": 923_648},
        {
            "tier": "host",
            "bytes": 50 * GIB,
            "pages": 50 * GIB // 3_076_352,
            "tokens": 50 * GIB // 3_076_352 * 64,
            "unused_bytes": 50 * GIB % 3_076_352,
        },
    ]


def test_load_and_recompute_times() -> None:
    found = report(*V32, *RATES, "--tokens", "1000,8192", "--fixed-cost", "2")
    assert found["fixed_cost"] == {"seconds": 0.002, "source": "--fixed-cost"}
    short, long = found["loads"]
    assert short == {
        "tokens": 1000,
        "pages": 15,  # 960 tokens: whole pages only
        "bytes": 15 * 3_076_352,
        "seconds": pytest.approx(0.002 + 15 * 3_076_352 / 50e9),
        "recompute_seconds": pytest.approx(0.096),
    }
    assert long["pages"] == 128 and long["recompute_seconds"] == pytest.approx(0.8192)


def test_the_break_even_is_where_both_take_as_long() -> None:
    even = report(*V32, *RATES, "--fixed-cost", "50")["break_even"]
    exact = 0.05 / (1 / 10_000 - 48_068 / 50e9)
    assert even["tokens"] % 64 == 0 and 0 <= even["tokens"] - exact < 64
    assert even["estimate"] is True and "prefill_rate" in even["formula"]
    found = report(*V32, *RATES, "--fixed-cost", "50", "--tokens", f"{even['tokens']},448")
    at, below = found["loads"]
    assert at["seconds"] <= at["recompute_seconds"]
    assert below["seconds"] > below["recompute_seconds"]
    assert report(*V32, *RATES, "--fixed-cost", "0")["break_even"]["tokens"] == 64


def test_a_link_that_never_pays() -> None:
    slow = (*V32, "--bandwidth", "400MB/s", "--prefill-rate", "10000")
    assert report(*slow)["break_even"]["tokens"] is None
    assert "Break-even, an estimate: none." in invoke(*slow).output


def test_the_fixed_cost_has_a_source() -> None:
    cost = report(*V32)["fixed_cost"]
    assert cost["seconds"] == 250e-6 and "docs/benchmarks.md" in cost["source"]
    assert "docs/benchmarks.md" in invoke(*V32, *RATES).output


def test_an_unknown_bandwidth_is_said_not_invented() -> None:
    found = report(*V32, "--prefill-rate", "10000")
    assert found["bandwidth"] is None and found["break_even"] is None
    assert "hicache bench link" in found["bandwidth_unknown"]
    assert [load["seconds"] for load in found["loads"]] == [None] * 4
    assert found["loads"][0]["recompute_seconds"] == pytest.approx(0.1024)
    output = invoke(*V32, "--prefill-rate", "10000").output
    unknown = (
        "Load times are unknown: There is no GPU, and no number is put in its place. Give --band"
    )
    assert unknown in output
    assert "unknown without a bandwidth" in output
    assert "unknown without --prefill-rate" in invoke(*V32, "--bandwidth", "50").output


def test_the_kept_link_curve_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    points = _core.LinkCurve.typical().points()
    identity = SimpleNamespace(
        cuda_device_identity=lambda device: "GPU 1",
        build_info=_core.build_info,
        LinkCurve=_core.LinkCurve,
    )
    monkeypatch.setattr(link_curve, "_core", identity)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert "no link curve is kept" in report(*V32)["bandwidth_unknown"]
    file = link_curve.curve_file("cuda")
    file.parent.mkdir()
    file.write_text(json.dumps({"identity": link_curve.identity_of("cuda"), "points": points}))
    fastest = max(n / s for pairs in points["h2d"].values() for n, s in pairs)
    kept = report(*V32)["bandwidth"]
    assert kept == {"bytes_per_second": fastest, "source": f"link curve {file}"}
    assert 54e9 < fastest < 55e9
    given = report(*V32, "--bandwidth", "10")["bandwidth"]
    assert given == {"bytes_per_second": 10e9, "source": "--bandwidth"}


def test_without_a_gpu_the_reason_is_plain(no_gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    found = kept_bandwidth()
    assert isinstance(found, NoBandwidth)
    plain = no_gpu if "CUDA backend" in no_gpu else "was found here"
    assert plain in found.reason and "no number is put in its place. Give --band" in found.reason
    assert "cudaError" not in found.reason


@pytest.mark.parametrize(
    ("said", "plain"),
    [
        (
            "Device 'cuda' needs a CUDA GPU and its driver; looking for one failed: CUDA driver "
            "version is insufficient for CUDA runtime version (cudaErrorInsufficientDriver).",
            "no NVIDIA driver was found here, or one that is older than the CUDA of this build",
        ),
        (
            "Device 'cuda' needs a CUDA GPU and its driver; looking for one failed: no CUDA-"
            "capable device is detected (cudaErrorNoDevice).",
            "no GPU was found here,",
        ),
        (
            "Device 'cuda': this build of hicache-nsa has no CUDA backend ...",
            "this build of hicache",
        ),
    ],
)
def test_what_the_core_says_in_plain_words(
    said: str, plain: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(device: str) -> str:
        raise RuntimeError(said)

    core = SimpleNamespace(cuda_device_identity=refuse, build_info=_core.build_info)
    monkeypatch.setattr(link_curve, "_core", core)
    output = invoke(*V32, "--prefill-rate", "10000").output
    assert f"Load times are unknown: {plain}" in output
    assert "cudaError" not in output and "insufficient" not in output


@pytest.mark.parametrize(
    ("text", "bytes_per_second"),
    [("55", 55e9), ("0.5", 0.5e9), ("2GiB/s", 2.0 * GIB), ("53GB", 53e9), ("100000", 1e14)],
)
def test_bandwidths(text: str, bytes_per_second: float) -> None:
    found = report(*V32, "--bandwidth", text)["bandwidth"]
    assert found["bytes_per_second"] == pytest.approx(bytes_per_second)


def test_the_table_of_models() -> None:
    rows = report("--host-size", "10GiB")["models"]
    assert [row["model"] for row in rows] == list(MODELS)
    for row in rows:
        (tier,) = row["tiers"]
        assert tier["tokens"] == 10 * GIB // row["page_bytes"] * 64
    output = invoke("--host-size", "10GiB").output
    lines = {line.split()[0]: line.split() for line in output.splitlines() if line}
    assert lines["deepseek-v3.2"][1:5] == ["dsa/fp8_ds_mla", "61", "48,068", "3,076,352"]
    assert lines["llama-3.1-8b"][3] == "131,072"
    assert "tokens on host" in output and "tokens on" not in invoke().output


def test_any_config(tmp_path: Path) -> None:
    config = {
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "hidden_size": 64,
    }
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    for path in (file, tmp_path):
        found = report("--config", str(path), "--kv-dtype", "fp16", "--page-size", "16")
        assert found["model"] == str(path)
        assert found["token_bytes"] == 2 * 2 * 2 * 16 * 2
        assert found["page_bytes"] == 16 * found["token_bytes"]


def test_kv_dtype_and_page_size() -> None:
    found = report(*V32, "--kv-dtype", "bf16", "--page-size", "128")
    assert (found["token_bytes"], found["page_bytes"]) == (78_324, 128 * 78_324)
    assert found["format"] == "dsa/bf16"


def test_json_file_and_text(tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    command = [sys.executable, "-m", "hicache_nsa.cli", "size", *V32, *RATES, "--json", str(file)]
    run = subprocess.run(command, capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")
    assert json.loads(file.read_text())["token_bytes"] == 48_068
    assert "latent" in run.stdout and "an estimate" in run.stdout and "\x1b" not in run.stdout


def test_it_needs_none_of_the_extras() -> None:
    code = (
        "import sys; sys.modules.update(torch=None, rich=None)\n"
        "from hicache_nsa.cli.app import hicache\n"
        "hicache.main(['size', '--model', 'glm-5'], standalone_mode=False)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "61,464" in run.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--model", "gpt-2"), "--model"),
        ((*V32, "--config", "."), "give --model or --config, not both"),
        (("--config", "no-such-file"), "--config"),
        ((*V32, "--kv-dtype", "int3"), "--kv-dtype"),
        (("--model", "glm-5", "--kv-dtype", "fp16"), "--kv-dtype: kv_dtype='fp16' is unknown"),
        (("--model", "qwen3-8b", "--kv-dtype", "fp8_ds_mla"), "--kv-dtype: dtype='fp8_ds_mla'"),
        ((*V32, "--page-size", "0"), "--page-size"),
        ((*V32, "--page-size", "65537"), "--page-size"),
        ((*V32, "--host-size", "50 apples"), "--host-size"),
        ((*V32, "--host-size", "-1"), "--host-size"),
        ((*V32, "--host-size", "0"), "--host-size: 0 bytes are below one page"),
        ((*V32, "--host-size", "3MB"), "--host-size: 3000000 bytes are below one page"),
        ((*V32, "--device-size", "1KiB"), "--device-size: 1024 bytes are below one page"),
        ((*V32, "--host-size", "9999PiB"), "more than 1 EiB"),
        (
            ("--model", "qwen2.5-7b", "--page-size", "1", "--host-size", "1000PB"),
            "a pool has at most",
        ),
        (("--host-size", "4MB"), "--host-size of deepseek-v3: 4000000 bytes are below one page"),
        ((*V32, "--tokens", "63"), "--tokens: 63 tokens are below one page of 64"),
        ((*V32, "--tokens", "0"), "--tokens"),
        ((*V32, "--tokens", "-5"), "--tokens"),
        ((*V32, "--tokens", "1e3"), "--tokens"),
        ((*V32, "--tokens", "1024,"), "--tokens"),
        ((*V32, "--bandwidth", "0"), "--bandwidth"),
        ((*V32, "--bandwidth", "-3"), "--bandwidth"),
        ((*V32, "--bandwidth", "fast"), "is no bandwidth"),
        ((*V32, "--bandwidth", "nan"), "--bandwidth"),
        ((*V32, "--bandwidth", "1e30"), "--bandwidth"),
        ((*V32, "--bandwidth", "100001"), "0.001 to 100,000 GB/s"),
        ((*V32, "--bandwidth", "0.0001"), "0.001 to 100,000 GB/s"),
        ((*V32, "--prefill-rate", "0"), "--prefill-rate"),
        ((*V32, "--prefill-rate", "nan"), "--prefill-rate"),
        ((*V32, "--prefill-rate", "inf"), "--prefill-rate"),
        ((*V32, "--prefill-rate", "-1"), "--prefill-rate"),
        ((*V32, "--prefill-rate", "1e-300"), "from 0.001 to 1,000,000,000"),
        ((*V32, "--fixed-cost", "-1"), "--fixed-cost"),
        ((*V32, "--fixed-cost", "70000"), "--fixed-cost"),
        (("--kv-dtype", "bf16"), "--kv-dtype is of one model"),
        (("--tokens", "1024"), "--tokens is of one model"),
        (("--bandwidth", "3"), "--bandwidth is of one model"),
        (("--prefill-rate", "3"), "--prefill-rate is of one model"),
        (("--fixed-cost", "3"), "--fixed-cost is of one model"),
        ((*V32, "--json", "no-such-folder/out.json"), "cannot be written"),
    ],
)
def test_bad_usage(arguments: tuple[str, ...], message: str) -> None:
    outcome = invoke(*arguments)
    assert outcome.exit_code == 2, outcome.output
    assert message in " ".join(outcome.output.split())


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{",
        "{}",
        '{"num_hidden_layers": 0, "num_attention_heads": 1, "hidden_size": 8}',
        '{"num_hidden_layers": 1e999, "num_attention_heads": 1, "hidden_size": 8}',
        '{"num_hidden_layers": "many", "num_attention_heads": 1, "hidden_size": 8}',
        '{"num_hidden_layers": 2, "kv_lora_rank": 512}',
        '{"num_hidden_layers": 2, "kv_lora_rank": 500, "qk_rope_head_dim": 8, "index_head_dim": 1}',
        '{"num_hidden_layers": 2, "num_attention_heads": 1, "head_dim": "x"}',
        '{"num_hidden_layers": 2, "kv_lora_rank": 512, "qk_rope_head_dim": 64,'
        ' "index_head_dim": 128, "index_topk_freq": 0}',
        "[" * 100_000,
    ],
)
def test_a_broken_config_is_named(content: str, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(content)
    outcome = invoke("--config", str(file))
    assert outcome.exit_code == 2, outcome.output
    assert "--config: " in outcome.output
