"""Seeded random weights, tuned so that what a model answers depends on its whole context."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .config import DsaConfig, MoeConfig
from .weights import (
    AttentionWeights,
    IndexerWeights,
    LayerWeights,
    MlpWeights,
    ModelWeights,
    MoeWeights,
)

QUERY_GAIN = 2.0  # sharp attention: a few selected tokens decide, not an average of all
BRANCH_GAIN = 1.0  # attention and MLP weigh as much as the token's own embedding


class _Draw:
    """Normal matrices whose outputs have unit variance for unit variance inputs."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)

    def matrix(self, *shape: int, gain: float = 1.0) -> Tensor:
        scale = gain / math.sqrt(shape[-1])
        return torch.randn(*shape, generator=self._generator) * scale


def random_weights(config: DsaConfig, seed: int = 0) -> ModelWeights:
    """Random weights on the CPU. The same seed, torch version and config give the same bytes."""
    draw = _Draw(seed)
    hidden = config.hidden_size
    return ModelWeights(
        embedding=draw.matrix(config.vocab_size, hidden, gain=math.sqrt(hidden)),
        layers=tuple(_layer(config, draw, layer) for layer in range(config.num_layers)),
        norm=torch.ones(hidden),
        head=draw.matrix(config.vocab_size, hidden),
    )


def _layer(config: DsaConfig, draw: _Draw, layer: int) -> LayerWeights:
    hidden = config.hidden_size
    mlp: MlpWeights | MoeWeights
    if layer in config.sparse_layers and config.moe is not None:
        mlp = _moe(config.moe, draw, hidden)
    else:
        mlp = _mlp(draw, hidden, config.intermediate_size)
    return LayerWeights(
        attention_norm=torch.ones(hidden),
        attention=_attention(config, draw, layer in config.index_layers),
        mlp_norm=torch.ones(hidden),
        mlp=mlp,
    )


def _attention(config: DsaConfig, draw: _Draw, owns_indexer: bool) -> AttentionWeights:
    hidden, heads, rank = config.hidden_size, config.num_heads, config.kv_lora_rank
    head_dim = config.qk_nope_head_dim + config.rope.dim
    return AttentionWeights(
        q_down=draw.matrix(config.q_lora_rank, hidden),
        q_norm=torch.ones(config.q_lora_rank),
        q_up=draw.matrix(heads * head_dim, config.q_lora_rank, gain=QUERY_GAIN),
        kv_down=draw.matrix(rank + config.rope.dim, hidden),
        kv_norm=torch.ones(rank),
        key_up=draw.matrix(heads, config.qk_nope_head_dim, rank),
        value_up=draw.matrix(heads, config.v_head_dim, rank),
        out=draw.matrix(hidden, heads * config.v_head_dim, gain=BRANCH_GAIN),
        indexer=_indexer(config, draw) if owns_indexer else None,
    )


def _indexer(config: DsaConfig, draw: _Draw) -> IndexerWeights:
    heads, head_dim = config.index_num_heads, config.index_head_dim
    return IndexerWeights(
        q_up=draw.matrix(heads * head_dim, config.q_lora_rank),
        key=draw.matrix(head_dim, config.hidden_size),
        key_norm=torch.ones(head_dim),
        key_norm_bias=torch.zeros(head_dim),
        head_weights=draw.matrix(heads, config.hidden_size),
    )


def _mlp(draw: _Draw, hidden: int, intermediate: int) -> MlpWeights:
    return MlpWeights(
        gate=draw.matrix(intermediate, hidden),
        up=draw.matrix(intermediate, hidden),
        down=draw.matrix(hidden, intermediate, gain=BRANCH_GAIN),
    )


def _moe(moe: MoeConfig, draw: _Draw, hidden: int) -> MoeWeights:
    experts, inner = moe.num_experts, moe.intermediate_size
    return MoeWeights(
        router=draw.matrix(experts, hidden),
        router_bias=torch.zeros(experts),
        gate_up=draw.matrix(experts, 2 * inner, hidden),
        down=draw.matrix(experts, hidden, inner, gain=BRANCH_GAIN),
        shared=_mlp(draw, hidden, inner * moe.shared_experts),
    )
