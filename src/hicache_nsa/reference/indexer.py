"""The indexer: scores every cached token for every query and picks the top k.

score(query, token) = sum over heads of weight(query, head) * relu(query_head . key_token) / sqrt(D)

Not done here, as in transformers: the Hadamard rotation of queries and keys (orthogonal, so the
scores are the same) and the rounding of *queries* to fp8. Cached keys are rounded (see `codec`).
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from .block import Block
from .config import DsaConfig
from .rope import rotate_half_split, rotate_interleaved
from .weights import IndexerWeights

KEY_NORM_EPS = 1e-6


def index_keys(config: DsaConfig, weights: IndexerWeights, x: Tensor, block: Block) -> Tensor:
    """Keys to cache, float32 [rows, head_dim], of normed hidden states [rows, hidden]."""
    projected = F.linear(x, weights.key)
    keys = F.layer_norm(
        projected, projected.shape[-1:], weights.key_norm, weights.key_norm_bias, KEY_NORM_EPS
    )
    return _rotate_front(config, keys, block.cos, block.sin)


def index_scores(
    config: DsaConfig,
    weights: IndexerWeights,
    x: Tensor,
    compressed_query: Tensor,
    keys: Tensor,
    block: Block,
) -> Tensor:
    """Scores [rows, tokens] of cached keys [tokens, head_dim]; tokens after a row get -inf."""
    rows, heads, head_dim = len(x), config.index_num_heads, config.index_head_dim
    queries = F.linear(compressed_query, weights.q_up).view(rows, heads, head_dim)
    queries = _rotate_front(config, queries, block.cos[:, None], block.sin[:, None])
    head_weights = F.linear(x, weights.head_weights) * (heads**-0.5 * head_dim**-0.5)
    similarity = torch.mm(queries.view(rows * heads, head_dim), keys.T).relu_()
    scores = torch.bmm(head_weights[:, None], similarity.view(rows, heads, -1))[:, 0]
    scores.nan_to_num_(nan=float("-inf"), posinf=float("inf"), neginf=float("-inf"))
    tokens = torch.arange(len(keys), device=x.device)
    return scores.masked_fill_(tokens > block.positions[:, None], float("-inf"))


def select_top_k(scores: Tensor, k: int) -> Tensor:
    """Tokens with the k highest scores in each row, ascending, int64 [rows, min(k, tokens)].

    Of equal scores the lower position wins, so the choice never depends on how a sort works.
    Rows with fewer than k tokens are filled with tokens that scored -inf.
    """
    rows, tokens = scores.shape
    if tokens <= k:
        return torch.arange(tokens, device=scores.device).expand(rows, tokens)
    lowest = _kth_highest(scores, k)
    keep = scores >= lowest
    if int(keep.sum()) != rows * k:  # ties at the lowest kept score
        above = scores > lowest
        tied = keep & ~above
        missing = k - above.sum(-1, keepdim=True)
        keep = above | (tied & (tied.cumsum(-1) <= missing))
    return keep.nonzero()[:, 1].view(rows, k)


def _kth_highest(scores: Tensor, k: int) -> Tensor:
    """The k-th highest score of each row [rows, 1]. On the CPU numpy is several times faster."""
    if scores.device.type != "cpu":
        return scores.topk(k, dim=-1).values[:, -1:]
    place = scores.shape[-1] - k
    ordered = np.partition(scores.numpy(), place, axis=-1)
    return torch.from_numpy(ordered[:, place : place + 1])


def _rotate_front(config: DsaConfig, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate the first rope dimensions of each head, pass the others."""
    rotate = rotate_interleaved if config.index_rope_interleaved else rotate_half_split
    front = rotate(x[..., : config.rope.dim], cos, sin)
    return torch.cat((front, x[..., config.rope.dim :]), dim=-1)
