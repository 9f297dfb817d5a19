"""Dimensions of a DSA model: latent attention plus an indexer that picks top-k tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from .rope import Rope

KV_DTYPES = ("bf16", "fp8_ds_mla", "fp8", "fp32")
INDEX_DTYPES = ("fp8", "fp32")


@dataclass(frozen=True)
class MoeConfig:
    """Mixture of experts of the sparse layers: grouped sigmoid routing plus shared experts."""

    num_experts: int
    experts_per_token: int
    intermediate_size: int
    shared_experts: int = 1
    num_groups: int = 1
    groups_per_token: int = 1
    normalise_weights: bool = True
    weight_scale: float = 1.0


@dataclass(frozen=True)
class DsaConfig:
    """Everything the reference model needs to know besides its weights.

    `index_layers` names the layers with an indexer of their own; every other layer uses the
    selection of the nearest one below it (layer 0 must be among them). `sparse_layers` names the
    layers whose MLP is a mixture of experts. `block_rows` is the number of positions computed
    together, see `model.py`. `index_dtype="fp32"` is for comparisons: engines store fp8.
    """

    vocab_size: int
    hidden_size: int
    num_layers: int
    num_heads: int
    q_lora_rank: int
    qk_nope_head_dim: int
    v_head_dim: int
    intermediate_size: int
    index_num_heads: int
    index_topk: int
    index_layers: tuple[int, ...]
    kv_lora_rank: int = 512
    rope: Rope = field(default_factory=lambda: Rope(64))
    index_head_dim: int = 128
    index_block_size: int = 128
    index_rope_interleaved: bool = False
    sparse_layers: tuple[int, ...] = ()
    moe: MoeConfig | None = None
    norm_eps: float = 1e-6
    page_size: int = 64
    kv_dtype: str = "fp8_ds_mla"
    index_dtype: str = "fp8"
    block_rows: int = 16

    def __post_init__(self) -> None:
        _one_of("kv_dtype", self.kv_dtype, KV_DTYPES)
        _one_of("index_dtype", self.index_dtype, INDEX_DTYPES)
        _layers("index_layers", self.index_layers, self.num_layers)
        _layers("sparse_layers", self.sparse_layers, self.num_layers)
        if not self.index_layers or self.index_layers[0] != 0:
            raise ValueError(f"index_layers={self.index_layers} must begin with layer 0")
        if self.sparse_layers and self.moe is None:
            raise ValueError(f"sparse_layers={self.sparse_layers} need a MoeConfig: pass moe=")
        if self.page_size % self.block_rows:
            raise ValueError(
                f"block_rows={self.block_rows} must divide page_size={self.page_size}: "
                "a block that straddles two pages is not supported"
            )
        if self.index_head_dim % self.index_block_size or self.index_head_dim < self.rope.dim:
            raise ValueError(
                f"index_head_dim={self.index_head_dim} must be a multiple of index_block_size="
                f"{self.index_block_size} and at least the {self.rope.dim} rotated dimensions"
            )
        if self.kv_dtype == "fp8_ds_mla" and self.kv_lora_rank % 128:
            raise ValueError(
                f"kv_lora_rank={self.kv_lora_rank} must be a multiple of 128 for fp8_ds_mla rows "
                "(one scale per 128 values); use kv_dtype='bf16'"
            )

    @property
    def softmax_scale(self) -> float:
        """Scale of the attention scores."""
        head_dim = self.qk_nope_head_dim + self.rope.dim
        return 1 / math.sqrt(head_dim) * self.rope.softmax_scale()

    @classmethod
    def demo(
        cls,
        vocab_size: int,
        *,
        kv_dtype: str = "fp8_ds_mla",
        num_layers: int = 4,
        hidden_size: int = 256,
        num_heads: int = 4,
        index_num_heads: int = 8,
        index_topk: int = 128,
        page_size: int = 64,
    ) -> DsaConfig:
        """A small model whose cached rows have the size of DeepSeek-V3.2's, for the CPU demo."""
        return cls(
            vocab_size=vocab_size,
            hidden_size=hidden_size,
            num_layers=num_layers,
            num_heads=num_heads,
            q_lora_rank=hidden_size,
            qk_nope_head_dim=64,
            v_head_dim=64,
            intermediate_size=2 * hidden_size,
            index_num_heads=index_num_heads,
            index_topk=index_topk,
            index_layers=tuple(range(num_layers)),
            page_size=page_size,
            kv_dtype=kv_dtype,
            block_rows=min(16, page_size),
        )


def _one_of(name: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise ValueError(f"{name}={value!r} is not one of {', '.join(allowed)}")


def _layers(name: str, layers: tuple[int, ...], num_layers: int) -> None:
    if sorted(set(layers) & set(range(num_layers))) != list(layers):
        raise ValueError(f"{name}={layers} must be ascending layer ids below {num_layers}")
