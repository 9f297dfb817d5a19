"""Reads the weights of transformers' DeepseekV32 and GlmMoeDsa models from a state dict.

Names are those of a model built by transformers 5.x: experts stacked, not a checkpoint's
per-expert names.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from .config import DsaConfig
from .weights import (
    AttentionWeights,
    IndexerWeights,
    LayerWeights,
    MlpWeights,
    ModelWeights,
    MoeWeights,
)


def weights_from_hf(config: DsaConfig, state: Mapping[str, Tensor]) -> ModelWeights:
    """float32 copies of a state dict's weights."""
    read = _Reader(state, "model.")
    return ModelWeights(
        embedding=read("embed_tokens.weight"),
        layers=tuple(_layer(config, state, layer) for layer in range(config.num_layers)),
        norm=read("norm.weight"),
        head=_Reader(state, "")("lm_head.weight"),
    )


class _Reader:
    def __init__(self, state: Mapping[str, Tensor], prefix: str) -> None:
        self._state, self._prefix = state, prefix

    def __call__(self, name: str) -> Tensor:
        return self._state[self._prefix + name].detach().float().clone().contiguous()


def _layer(config: DsaConfig, state: Mapping[str, Tensor], layer: int) -> LayerWeights:
    prefix = f"model.layers.{layer}."
    read = _Reader(state, prefix)
    sparse = layer in config.sparse_layers
    return LayerWeights(
        attention_norm=read("input_layernorm.weight"),
        attention=_attention(config, _Reader(state, prefix + "self_attn."), layer),
        mlp_norm=read("post_attention_layernorm.weight"),
        mlp=_moe(state, prefix + "mlp.") if sparse else _mlp(state, prefix + "mlp."),
    )


def _attention(config: DsaConfig, read: _Reader, layer: int) -> AttentionWeights:
    per_head = config.qk_nope_head_dim + config.v_head_dim
    kv_up = read("kv_b_proj.weight").view(config.num_heads, per_head, config.kv_lora_rank)
    return AttentionWeights(
        q_down=read("q_a_proj.weight"),
        q_norm=read("q_a_layernorm.weight"),
        q_up=read("q_b_proj.weight"),
        kv_down=read("kv_a_proj_with_mqa.weight"),
        kv_norm=read("kv_a_layernorm.weight"),
        key_up=kv_up[:, : config.qk_nope_head_dim].contiguous(),
        value_up=kv_up[:, config.qk_nope_head_dim :].contiguous(),
        out=read("o_proj.weight"),
        indexer=_indexer(read) if layer in config.index_layers else None,
    )


def _indexer(read: _Reader) -> IndexerWeights:
    return IndexerWeights(
        q_up=read("indexer.wq_b.weight"),
        key=read("indexer.wk.weight"),
        key_norm=read("indexer.k_norm.weight"),
        key_norm_bias=read("indexer.k_norm.bias"),
        head_weights=read("indexer.weights_proj.weight"),
    )


def _mlp(state: Mapping[str, Tensor], prefix: str) -> MlpWeights:
    read = _Reader(state, prefix)
    return MlpWeights(
        gate=read("gate_proj.weight"), up=read("up_proj.weight"), down=read("down_proj.weight")
    )


def _moe(state: Mapping[str, Tensor], prefix: str) -> MoeWeights:
    read = _Reader(state, prefix)
    return MoeWeights(
        router=read("gate.weight"),
        router_bias=read("gate.e_score_correction_bias"),
        gate_up=read("experts.gate_up_proj"),
        down=read("experts.down_proj"),
        shared=_mlp(state, prefix + "shared_experts."),
    )
