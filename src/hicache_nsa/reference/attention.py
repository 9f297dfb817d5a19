"""Multi-head latent attention over selected tokens, in the absorbed form.

Queries are carried into the latent space (`key_up`) and results out of it (`value_up`), so that
all heads attend to the cached latent rows themselves and no key or value is ever expanded.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from .block import Block
from .config import DsaConfig
from .layers import rms_norm
from .pools import LatentPool
from .rope import rotate_interleaved
from .weights import AttentionWeights


@dataclass(frozen=True)
class Projected:
    """What one layer's attention makes of a block before it looks at the cache."""

    x: Tensor  # normed hidden states [rows, hidden]
    compressed_query: Tensor  # [rows, q_lora_rank], the indexer's input too
    query: Tensor  # [rows, heads, kv_lora_rank + rope], absorbed
    latent: Tensor  # [rows, kv_lora_rank + rope], the row to cache


def project(config: DsaConfig, weights: AttentionWeights, x: Tensor, block: Block) -> Projected:
    """Queries and the latent row of normed hidden states [rows, hidden]."""
    rows, heads, nope = len(x), config.num_heads, config.qk_nope_head_dim
    compressed = rms_norm(F.linear(x, weights.q_down), weights.q_norm)
    query = F.linear(compressed, weights.q_up).view(rows, heads, -1)
    absorbed = torch.bmm(query[..., :nope].transpose(0, 1), weights.key_up).transpose(0, 1)
    rotated = rotate_interleaved(query[..., nope:], block.cos[:, None], block.sin[:, None])
    down = F.linear(x, weights.kv_down)
    latent = rms_norm(down[:, : config.kv_lora_rank], weights.kv_norm)
    rotated_key = rotate_interleaved(down[:, config.kv_lora_rank :], block.cos, block.sin)
    return Projected(
        x=x,
        compressed_query=compressed,
        query=torch.cat((absorbed, rotated), dim=-1),
        latent=torch.cat((latent, rotated_key), dim=-1),
    )


def attend(
    config: DsaConfig,
    weights: AttentionWeights,
    query: Tensor,
    selected: Tensor,
    pool: LatentPool,
    positions: Tensor,
) -> Tensor:
    """Attention output [rows, hidden] over the selected tokens, int64 [rows, k].

    A selected token after its row (the fill of a short row) is masked, and the row's own token is
    read in its place: bytes of later tokens may be anything, NaN included.
    """
    future = selected > positions[:, None]
    latent = pool.read(torch.minimum(selected, positions[:, None]))  # [rows, k, rank + rope]
    scores = torch.bmm(query, latent.transpose(1, 2)) * config.softmax_scale
    shares = scores.masked_fill_(future[:, None], float("-inf")).softmax(-1)
    mixed = torch.bmm(shares, latent[..., : config.kv_lora_rank])  # [rows, heads, rank]
    values = torch.bmm(mixed.transpose(0, 1), weights.value_up.transpose(1, 2))
    return F.linear(values.transpose(0, 1).flatten(1), weights.out)
