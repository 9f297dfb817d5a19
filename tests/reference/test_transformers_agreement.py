"""The reference model computes what transformers' DSA models compute."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch

from hicache_nsa.reference import ReferenceModel, allocate_pools, from_transformers, index_codec

transformers = pytest.importorskip("transformers")
pytest.importorskip("transformers.models.deepseek_v32")
pytest.importorskip("transformers.models.glm_moe_dsa")

SMALL = {
    "vocab_size": 512,
    "hidden_size": 128,
    "intermediate_size": 256,
    "moe_intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "n_group": 4,
    "topk_group": 2,
    "first_k_dense_replace": 1,
    "q_lora_rank": 96,
    "qk_nope_head_dim": 32,
    "v_head_dim": 32,
    "index_topk": 48,
    "index_n_heads": 32,
    "initializer_range": 0.05,
    "attn_implementation": "eager",
}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "original_max_position_embeddings": 64,
    "mscale": 1.0,
    "mscale_all_dim": 0.5,
}
# (length, seed): prompts in which the last selected token beats the next by more than 1e-5 of the
# best score. Where it is closer, the rounding of another BLAS may swap the two.
PROMPTS = [(160, 0), (208, 4), (256, 2), (300, 13)]
CHUNKS = [1000, 100, 64, 32]
PAGES = torch.tensor([4, 0, 2, 3, 1])


@cache
def hf_model(kind: str) -> Any:
    """A seeded model; norms and biases get values that a forgotten one would not have."""
    torch.manual_seed(0)
    if kind == "glm":
        types = ["full", "shared", "full"]
        config = transformers.GlmMoeDsaConfig(**SMALL, indexer_types=types)
        model = transformers.GlmMoeDsaForCausalLM(config)
    else:
        rope = {"rope_parameters": dict(YARN), "max_position_embeddings": 512}
        config = transformers.DeepseekV32Config(**SMALL, **(rope if kind == "yarn" else {}))
        model = transformers.DeepseekV32ForCausalLM(config)
    generator = torch.Generator().manual_seed(1)
    for name, tensor in model.state_dict().items():
        if "norm" in name or "bias" in name:
            tensor.add_(0.1 * torch.randn(tensor.shape, generator=generator))
    return model.eval()


def hf_logits(kind: str, prompt: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        logits: torch.Tensor = hf_model(kind)(prompt[None], use_cache=True).logits[0]
    return logits


def all_logits(model: ReferenceModel, prompt: torch.Tensor, chunk: int = 64) -> torch.Tensor:
    pools = allocate_pools(model.config, len(PAGES))
    return torch.cat(
        [
            model.forward_chunk(prompt[i : i + chunk], i, PAGES, pools, logits="all")
            for i in range(0, len(prompt), chunk)
        ]
    )


def relative_error(logits: torch.Tensor, expected: torch.Tensor) -> float:
    return float((logits - expected).abs().max() / expected.abs().max())


@pytest.mark.parametrize(("length", "seed"), PROMPTS)
def test_precise_rows_give_the_logits_of_transformers(
    make_prompt: Callable[..., Any], figures: dict[str, Any], length: int, seed: int
) -> None:
    prompt = make_prompt(length, seed, 512)
    model = from_transformers(hf_model("v32"), kv_dtype="fp32", index_dtype="fp32")
    assert model.config.index_topk < length
    expected = hf_logits("v32", prompt)
    for chunk in CHUNKS:
        error = relative_error(all_logits(model, prompt, chunk), expected)
        figures[f"relative error, prompt {length}, chunk {chunk}"] = error
        assert error < 1e-4


@pytest.mark.parametrize("kind", ["yarn", "glm"])
def test_yarn_and_shared_selection_too(
    make_prompt: Callable[..., Any], figures: dict[str, Any], kind: str
) -> None:
    prompt = make_prompt(256, 0, 512)
    model = from_transformers(hf_model(kind), kv_dtype="fp32", index_dtype="fp32")
    assert model.config.index_layers == ((0, 2) if kind == "glm" else (0, 1, 2))
    error = relative_error(all_logits(model, prompt), hf_logits(kind, prompt))
    figures[f"relative error, {kind}"] = error
    assert error < 1e-4


def test_the_comparison_sees_a_wrong_rotation(make_prompt: Callable[..., Any]) -> None:
    prompt = make_prompt(160, 0, 512)
    model = from_transformers(hf_model("v32"), kv_dtype="fp32", index_dtype="fp32")
    wrong = dataclasses.replace(model.config, index_rope_interleaved=True)
    logits = all_logits(ReferenceModel(wrong, model.weights), prompt)
    assert relative_error(logits, hf_logits("v32", prompt)) > 1e-2


def test_greedy_answers_are_those_of_transformers(make_prompt: Callable[..., Any]) -> None:
    prompt = make_prompt(160, 0, 512)
    model = from_transformers(hf_model("v32"), kv_dtype="fp32", index_dtype="fp32")
    pools = allocate_pools(model.config, len(PAGES))
    logits = model.prefill(prompt, PAGES, pools)
    answer = model.decode_greedy(logits, len(prompt), 16, PAGES, pools)
    generated = hf_model("v32").generate(
        prompt[None], max_new_tokens=16, do_sample=False, eos_token_id=None
    )
    assert answer == generated[0, len(prompt) :].tolist()


def test_fp8_index_pages_select_what_transformers_selects_by_rounded_keys(
    make_prompt: Callable[..., Any], figures: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Transformers with its cached index keys rounded to what our index pages hold."""
    prompt = make_prompt(256, 2, 512)
    model = from_transformers(hf_model("v32"), kv_dtype="fp32")
    codec = index_codec(model.config)
    layer_type = transformers.cache_utils.DynamicIndexedLayer
    keep = layer_type.update_indexer

    def round_then_keep(self: Any, keys: torch.Tensor) -> Any:
        data, scales = codec.pack(keys[0])
        pages = torch.cat(
            (data.view(-1, codec.page_size * 128), scales.view(-1, codec.page_size * 4)), dim=1
        )
        return keep(self, codec.unpack_pages(pages)[None])

    monkeypatch.setattr(layer_type, "update_indexer", round_then_keep)
    expected = hf_logits("v32", prompt)
    errors = (all_logits(model, prompt) - expected).abs().amax(-1) / expected.abs().max()
    share = float((errors < 1e-4).float().mean())
    figures["share of positions equal to 1e-4 with fp8 index pages"] = share
    # A key on the edge between two fp8 values may fall to either side on another BLAS.
    assert share > 0.9


@pytest.mark.parametrize(
    ("kv_dtype", "index_dtype", "least"),
    [
        ("bf16", "fp32", 0.95),
        ("bf16", "fp8", 0.75),
        ("fp8_ds_mla", "fp32", 0.75),
        ("fp8_ds_mla", "fp8", 0.7),
        ("fp8", "fp8", 0.65),
    ],
)
def test_top_1_agreement_of_rounded_rows(
    make_prompt: Callable[..., Any],
    figures: dict[str, Any],
    kv_dtype: str,
    index_dtype: str,
    least: float,
) -> None:
    """Share of positions with the same most likely token as transformers in float32.

    Random weights are the hard case: logits are nearly level, and each token that rounding
    swaps in the selection weighs as much as any other.
    """
    model = from_transformers(hf_model("v32"), kv_dtype=kv_dtype, index_dtype=index_dtype)
    agreed = []
    for length, seed in PROMPTS:
        prompt = make_prompt(length, seed, 512)
        found = all_logits(model, prompt).argmax(-1)
        agreed.append(found == hf_logits("v32", prompt).argmax(-1))
    share = float(torch.cat(agreed).float().mean())
    figures[f"top-1 agreement, {kv_dtype} rows, {index_dtype} index keys"] = round(share, 4)
    assert share >= least
