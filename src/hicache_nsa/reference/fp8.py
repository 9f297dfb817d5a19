"""float8 e4m3 (the "fn" variant: no infinities, largest value 448) to and from float32."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

E4M3_MAX = 448.0


def encode_e4m3(values: Tensor) -> Tensor:
    """Bytes of float32 values, rounded to nearest even, saturating at +-448. Same shape, uint8."""
    return values.clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn).view(torch.uint8)


def decode_e4m3(data: Tensor) -> Tensor:
    """float32 values of e4m3 bytes [..., n] (n even, last dimension packed). Exact, NaN kept.

    On a CPU two bytes at a time through a table: torch's own cast is several times slower there.
    """
    if data.device.type != "cpu":
        return data.view(torch.float8_e4m3fn).float().contiguous()
    pairs = data.view(torch.uint16).to(torch.int32)
    looked_up = _pair_table().index_select(0, pairs.reshape(-1))
    return looked_up.view(torch.float32).view(data.shape)


@cache
def _pair_table() -> Tensor:
    """All 65,536 pairs of bytes as two float32 in one int64."""
    two_bytes = torch.arange(1 << 16, dtype=torch.int32).to(torch.uint16).view(torch.uint8)
    return two_bytes.view(torch.float8_e4m3fn).float().view(torch.int64)
