"""Norms and MLPs of one block of rows [rows, hidden]."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from .config import MoeConfig
from .weights import MlpWeights, MoeWeights


def rms_norm(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    """Root mean square norm over the last dimension."""
    return weight * (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps))


def mlp(x: Tensor, weights: MlpWeights) -> Tensor:
    """Gated MLP."""
    inner = F.silu(F.linear(x, weights.gate)) * F.linear(x, weights.up)
    return F.linear(inner, weights.down)


def mixture(x: Tensor, weights: MoeWeights, moe: MoeConfig) -> Tensor:
    """Routed and shared experts.

    Every expert computes every row and unchosen results weigh 0: shapes never depend on the
    routing, so a row's result never depends on its neighbours. Only for few experts.
    """
    share = expert_shares(x, weights, moe)
    gate, up = torch.matmul(x, weights.gate_up.transpose(1, 2)).chunk(2, dim=-1)
    results = torch.bmm(F.silu(gate) * up, weights.down.transpose(1, 2))  # [experts, rows, hidden]
    return (results * share.T[..., None]).sum(0) + mlp(x, weights.shared)


def expert_shares(x: Tensor, weights: MoeWeights, moe: MoeConfig) -> Tensor:
    """What each expert's result weighs in each row, 0 where not chosen. [rows, experts]

    The bias takes part in choosing groups and experts, not in the weight. A group is worth the
    sum of its two best experts.
    """
    affinity = F.linear(x, weights.router).sigmoid()
    choice = affinity + weights.router_bias
    grouped = choice.view(len(x), moe.num_groups, -1)
    worth = grouped.topk(2, dim=-1).values.sum(-1)
    outside = torch.ones_like(worth, dtype=torch.bool)
    outside.scatter_(1, worth.topk(moe.groups_per_token, dim=-1).indices, False)
    choice = grouped.masked_fill(outside[..., None], float("-inf")).flatten(1)
    chosen = choice.topk(moe.experts_per_token, dim=-1).indices
    shares = affinity.gather(1, chosen)
    if moe.normalise_weights:
        shares = shares / (shares.sum(-1, keepdim=True) + 1e-20)
    return torch.zeros_like(affinity).scatter(1, chosen, shares * moe.weight_scale)
