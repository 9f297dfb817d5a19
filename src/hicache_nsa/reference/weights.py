"""Weights of the reference model as plain float32 tensors. A matrix is [out, in]."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class MlpWeights:
    """Gated MLP: down(silu(gate(x)) * up(x))."""

    gate: Tensor
    up: Tensor
    down: Tensor


@dataclass(frozen=True)
class MoeWeights:
    """Router [experts, hidden], its selection bias [experts], stacked experts, shared experts."""

    router: Tensor
    router_bias: Tensor
    gate_up: Tensor  # [experts, 2 * intermediate, hidden], gate rows first
    down: Tensor  # [experts, hidden, intermediate]
    shared: MlpWeights


@dataclass(frozen=True)
class IndexerWeights:
    """Projections of the indexer; the key norm is a LayerNorm, so it has a bias."""

    q_up: Tensor  # [heads * head_dim, q_lora_rank]
    key: Tensor  # [head_dim, hidden]
    key_norm: Tensor
    key_norm_bias: Tensor
    head_weights: Tensor  # [heads, hidden]


@dataclass(frozen=True)
class AttentionWeights:
    """Multi-head latent attention; the key-value up projection is split by what it makes."""

    q_down: Tensor  # [q_lora_rank, hidden]
    q_norm: Tensor
    q_up: Tensor  # [heads * (nope + rope), q_lora_rank]
    kv_down: Tensor  # [kv_lora_rank + rope, hidden]
    kv_norm: Tensor
    key_up: Tensor  # [heads, nope, kv_lora_rank]
    value_up: Tensor  # [heads, v_head_dim, kv_lora_rank]
    out: Tensor  # [hidden, heads * v_head_dim]
    indexer: IndexerWeights | None


@dataclass(frozen=True)
class LayerWeights:
    """One decoder layer."""

    attention_norm: Tensor
    attention: AttentionWeights
    mlp_norm: Tensor
    mlp: MlpWeights | MoeWeights


@dataclass(frozen=True)
class ModelWeights:
    """The whole model."""

    embedding: Tensor  # [vocab, hidden]
    layers: tuple[LayerWeights, ...]
    norm: Tensor
    head: Tensor  # [vocab, hidden]

    def to(self, device: torch.device | str) -> ModelWeights:
        """The same weights on a device."""
        moved: ModelWeights = _map(self, lambda tensor: tensor.to(device))
        return moved


def _map(node: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Apply `change` to every tensor of a tree of dataclasses and tuples."""
    if isinstance(node, Tensor):
        return change(node)
    if isinstance(node, tuple):
        return tuple(_map(child, change) for child in node)
    if is_dataclass(node) and not isinstance(node, type):
        parts = {field.name: _map(getattr(node, field.name), change) for field in fields(node)}
        return type(node)(**parts)
    return node
