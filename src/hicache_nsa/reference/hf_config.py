"""Reads the configuration of transformers' DeepseekV32 and GlmMoeDsa models (needs neither)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .config import DsaConfig, MoeConfig
from .rope import Rope, YarnScaling

INTERLEAVED_INDEXERS = ("glm_moe_dsa",)  # model types whose indexer rotates interleaved pairs


def config_from_hf(
    config: Any,
    *,
    kv_dtype: str = "fp8_ds_mla",
    index_dtype: str = "fp8",
    page_size: int = 64,
    block_rows: int = 16,
) -> DsaConfig:
    """The reference configuration of a PretrainedConfig, or of its `to_dict()`."""
    raw: Mapping[str, Any] = config if isinstance(config, Mapping) else config.to_dict()
    _refuse(raw)
    num_layers = int(raw["num_hidden_layers"])
    mlp_types = raw.get("mlp_layer_types") or [
        "dense" if layer < raw["first_k_dense_replace"] else "sparse" for layer in range(num_layers)
    ]
    index_types = raw.get("indexer_types") or ["full"] * num_layers
    return DsaConfig(
        vocab_size=raw["vocab_size"],
        hidden_size=raw["hidden_size"],
        num_layers=num_layers,
        num_heads=raw["num_attention_heads"],
        q_lora_rank=raw["q_lora_rank"],
        kv_lora_rank=raw["kv_lora_rank"],
        qk_nope_head_dim=raw["qk_nope_head_dim"],
        v_head_dim=raw["v_head_dim"],
        intermediate_size=raw["intermediate_size"],
        rope=_rope(raw),
        index_num_heads=raw["index_n_heads"],
        index_head_dim=raw["index_head_dim"],
        index_block_size=min(128, raw["index_head_dim"]),
        index_topk=raw["index_topk"],
        index_layers=tuple(i for i in range(num_layers) if index_types[i] == "full"),
        index_rope_interleaved=raw.get("model_type") in INTERLEAVED_INDEXERS,
        sparse_layers=tuple(i for i in range(num_layers) if mlp_types[i] == "sparse"),
        moe=_moe_config(raw),
        norm_eps=raw["rms_norm_eps"],
        page_size=page_size,
        kv_dtype=kv_dtype,
        index_dtype=index_dtype,
        block_rows=min(block_rows, page_size),
    )


def _refuse(raw: Mapping[str, Any]) -> None:
    """ValueError for what the reference model does not compute."""
    if raw.get("q_lora_rank") is None:
        raise ValueError("q_lora_rank=None: the indexer needs the compressed query")
    if raw.get("attention_bias") or raw.get("mlp_bias"):
        raise ValueError("attention_bias or mlp_bias is set: only models without biases are read")
    if raw.get("hidden_act", "silu") != "silu":
        raise ValueError(f"hidden_act={raw['hidden_act']!r}: only 'silu' is computed")


def _rope(raw: Mapping[str, Any]) -> Rope:
    parameters = raw.get("rope_parameters") or {}
    kind = parameters.get("rope_type", "default")
    theta = float(parameters.get("rope_theta", 10000.0))
    if kind == "default":
        return Rope(raw["qk_rope_head_dim"], theta)
    if kind != "yarn":
        raise ValueError(f"rope_type={kind!r}: only 'default' and 'yarn' are computed")
    original = parameters["original_max_position_embeddings"]
    yarn = YarnScaling(
        factor=parameters.get("factor") or raw["max_position_embeddings"] / original,
        original_max_position=original,
        beta_fast=parameters.get("beta_fast") or 32.0,
        beta_slow=parameters.get("beta_slow") or 1.0,
        mscale=parameters.get("mscale") or 0.0,
        mscale_all_dim=parameters.get("mscale_all_dim") or 0.0,
        attention_factor=parameters.get("attention_factor"),
        truncate=parameters.get("truncate", True),
    )
    return Rope(raw["qk_rope_head_dim"], theta, yarn)


def _moe_config(raw: Mapping[str, Any]) -> MoeConfig:
    return MoeConfig(
        num_experts=raw.get("n_routed_experts") or raw["num_local_experts"],
        experts_per_token=raw["num_experts_per_tok"],
        intermediate_size=raw["moe_intermediate_size"],
        shared_experts=raw["n_shared_experts"],
        num_groups=raw["n_group"],
        groups_per_token=raw["topk_group"],
        normalise_weights=raw["norm_topk_prob"],
        weight_scale=raw["routed_scaling_factor"],
    )
