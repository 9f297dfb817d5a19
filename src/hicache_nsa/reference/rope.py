"""Rotary position embedding: frequencies (plain and YaRN) and the two ways to pair up dimensions.

DeepSeek-V3.2 rotates its attention queries and keys in *interleaved* pairs (x0, x1), (x2, x3), ...
and its indexer in *half-split* pairs (x0, x32), (x1, x33), ...; GLM-MoE-DSA interleaves both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class YarnScaling:
    """YaRN context extension (arXiv 2309.00071), with DeepSeek's two `mscale` factors."""

    factor: float
    original_max_position: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    mscale: float = 0.0
    mscale_all_dim: float = 0.0
    attention_factor: float | None = None
    truncate: bool = True

    def cos_sin_scale(self) -> float:
        """Factor on cos and sin."""
        if self.attention_factor is not None:
            return self.attention_factor
        if self.mscale and self.mscale_all_dim:
            above = _mscale(self.factor, self.mscale)
            return above / _mscale(self.factor, self.mscale_all_dim)
        return _mscale(self.factor, 1.0)

    def softmax_scale(self) -> float:
        """Factor on the attention's softmax scale."""
        return _mscale(self.factor, self.mscale_all_dim) ** 2 if self.mscale_all_dim else 1.0

    def interpolation_share(self, dim: int, theta: float) -> Tensor:
        """How far each of the dim/2 frequencies is interpolated: 0 not at all, 1 wholly. [dim/2]"""

        def dim_of(rotations: float) -> float:
            turns = self.original_max_position / (rotations * 2 * math.pi)
            return dim * math.log(turns) / (2 * math.log(theta))

        low, high = dim_of(self.beta_fast), dim_of(self.beta_slow)
        if self.truncate:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, dim - 1)
        if low == high:
            high += 0.001  # a ramp of no width would divide by zero
        ramp = (torch.arange(dim // 2, dtype=torch.float32) - low) / (high - low)
        return ramp.clamp(0, 1)


@dataclass(frozen=True)
class Rope:
    """Rotation of `dim` dimensions by position."""

    dim: int
    theta: float = 10000.0
    yarn: YarnScaling | None = None

    def inverse_frequencies(self) -> Tensor:
        """Angle per position of each pair, float32 [dim/2]."""
        exponent = torch.arange(0, self.dim, 2, dtype=torch.float32) / self.dim
        plain = 1.0 / (self.theta**exponent)
        if self.yarn is None:
            return plain
        share = self.yarn.interpolation_share(self.dim, self.theta)
        return plain / self.yarn.factor * share + plain * (1 - share)

    def cos_sin(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """(cos, sin) of int64 positions [n], each float32 [n, dim/2]."""
        frequencies = self.inverse_frequencies().to(positions.device)
        angles = positions.float()[:, None] * frequencies
        scale = 1.0 if self.yarn is None else self.yarn.cos_sin_scale()
        return angles.cos() * scale, angles.sin() * scale

    def softmax_scale(self) -> float:
        """What the attention's softmax scale is multiplied by."""
        return 1.0 if self.yarn is None else self.yarn.softmax_scale()


def rotate_interleaved(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate pairs (x[2i], x[2i+1]). x [..., dim]; cos and sin broadcast to [..., dim/2]."""
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, odd * cos + even * sin), dim=-1).flatten(-2)


def rotate_half_split(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate pairs (x[i], x[i + dim/2]). Shapes as in `rotate_interleaved`."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def _mscale(factor: float, mscale: float) -> float:
    return 1.0 if factor <= 1 else 0.1 * mscale * math.log(factor) + 1.0
