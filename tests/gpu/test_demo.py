"""The demo on a GPU: model, pages and cache there, host copies in pinned memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from gpu_pools import LAYOUTS, torch

from hicache_nsa.cli.app import hicache
from hicache_nsa.demo.prompts import PromptPlan
from hicache_nsa.demo.results import DemoResult
from hicache_nsa.demo.runner import Demo
from hicache_nsa.demo.settings import DemoSettings
from hicache_nsa.reference import DsaConfig, ReferenceModel, allocate_pools, random_weights
from hicache_nsa.reference.codec import power_of_two_at_least
from hicache_nsa.reference.fp8 import decode_e4m3, encode_e4m3

PAGE = 64


def run(own_shots: bool = False, **options: Any) -> DemoResult:
    plan = PromptPlan(4, 3, own_shots, None)
    settings = DemoSettings(plan=plan, tokenizer="bytes", layers=2, device="cuda", **options)
    with Demo(settings) as demo:
        device = demo.cache.device_pool.device
        assert device.startswith("cuda")
        return demo.run()


def assert_claims(result: DemoResult) -> None:
    """The claims of the demo one by one, what is nearest to a cause first."""
    cold, device, after_flush = result.runs
    assert result.mismatches == (), "bytes that came back differ from those computed"
    assert cold.host_hit_tokens == device.host_hit_tokens == 0
    assert device.computed_tokens < cold.computed_tokens
    assert device.same_outputs(cold), "the model is not the same behind a device hit"
    assert after_flush.host_hit_tokens == cold.computed_tokens - device.computed_tokens
    assert after_flush.computed_tokens == device.computed_tokens
    assert result.pages_compared * PAGE == after_flush.host_hit_tokens
    assert after_flush.same_outputs(cold), "the model read a layer before it had landed"
    assert result.passed, result.failures


@pytest.mark.parametrize("kv_dtype", ["fp8_ds_mla", "bf16", "fp8", "fp32"])
def test_the_model_is_bit_identical_wherever_a_chunk_ends(kv_dtype: str) -> None:
    """Without any cache: what the demo's claims rest on."""
    config = DsaConfig.demo(256, num_layers=2, kv_dtype=kv_dtype)
    model = ReferenceModel(config, random_weights(config).to("cuda"))
    tokens = torch.arange(5 * PAGE + 20) % 251
    results = []
    for chunk in (None, PAGE, 100):
        pools = allocate_pools(config, 6, "cuda")
        logits = model.prefill(tokens, [5, 0, 3, 1, 4, 2], pools, chunk=chunk)
        results.append([logits, *(tensor for group in pools.values() for tensor in group)])
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_every_fp8_byte_is_decoded_as_on_the_cpu() -> None:
    data = torch.arange(256).to(torch.uint8)
    here, there = decode_e4m3(data), decode_e4m3(data.cuda()).cpu()
    assert torch.equal(here.nan_to_num(1e9), there.nan_to_num(1e9))
    assert here.isnan().sum() == 2
    values = torch.linspace(-500, 500, 4096)
    assert torch.equal(encode_e4m3(values), encode_e4m3(values.cuda()).cpu())


def test_scales_of_index_keys_are_powers_of_two_as_on_the_cpu() -> None:
    values = torch.logspace(-8, 8, 4096)
    there = power_of_two_at_least(values.cuda()).cpu()
    assert torch.equal(power_of_two_at_least(values), there)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_cold_device_and_after_a_flush(layout: str) -> None:
    assert_claims(run(layout=layout))


def test_own_shots_come_back_from_host() -> None:
    result = run(own_shots=True)
    assert_claims(result)
    after_flush = result.runs[2]
    assert after_flush.device_hit_tokens == 0
    assert after_flush.host_hit_tokens >= 0.9 * after_flush.prompt_tokens


def test_a_device_pool_for_one_request_at_a_time() -> None:
    result = run(own_shots=True, device_pages=40)
    assert result.passed, result.failures
    assert result.runs[1].host_hit_tokens > 0


def test_the_command(tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    arguments = ["demo", "--device", "cuda", "--questions", "2", "--shots", "3", "--layers", "1"]
    arguments += ["--tokenizer", "bytes", "--max-new-tokens", "2", "--json", str(file)]
    outcome = CliRunner().invoke(hicache, arguments)
    assert outcome.exit_code == 0, outcome.output
    written = json.loads(file.read_text())
    assert written["outputs_identical"] is written["bytes_identical"] is True
    assert written["settings"]["device"] == "cuda"
    assert written["environment"]["gpu"] == torch.cuda.get_device_name()
