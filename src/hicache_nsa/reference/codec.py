"""Byte formats of the cached rows, as inference engines store them.

Latent row of one token (buffer `latent`), `rank` = kv_lora_rank, `rope` = rotated dimensions:
    bf16        rank + rope bf16 values                                       1152 B at 512 + 64
    fp8_ds_mla  rank e4m3 values, a float32 scale per 128 of them, rope bf16   656 B
    fp8         rank + rope e4m3 values at scale 1                             576 B
    fp32        rank + rope float32 values (for comparisons)                  2304 B
Source of fp8_ds_mla: the cache layout of FlashMLA's sparse kernel that vLLM writes with
`concat_and_cache_ds_mla` (scale = largest magnitude / 448, at least FLT_MIN).

Index page (buffer `index_k`), D = index_head_dim: page_size * D e4m3 key bytes of all tokens, then
all their float32 scales, one per `index_block_size` values (8192 + 256 B at page 64). Source: the
fused key-and-scale cache of DeepGEMM's paged MQA logits, written by vLLM and SGLang with power of
two scales (`ue8m0`), from a magnitude of at least 1e-4. The "fp32" page is page_size * D float32.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .config import DsaConfig
from .fp8 import E4M3_MAX, decode_e4m3, encode_e4m3

SCALE_TILE = 128  # latent values per scale of fp8_ds_mla
FLOAT32_MIN_NORMAL = torch.finfo(torch.float32).tiny


@dataclass(frozen=True)
class LatentCodec:
    """Packs float32 latent rows [n, rank + rope] into bytes [n, row_bytes] and back."""

    kv_dtype: str
    rank: int
    rope: int

    @property
    def row_bytes(self) -> int:
        """Bytes of one token's row in one layer."""
        width = self.rank + self.rope
        return {
            "bf16": 2 * width,
            "fp8_ds_mla": self.rank + 4 * (self.rank // SCALE_TILE) + 2 * self.rope,
            "fp8": width,
            "fp32": 4 * width,
        }[self.kv_dtype]

    def pack(self, rows: Tensor) -> Tensor:
        """Bytes of float32 rows."""
        if self.kv_dtype == "bf16":
            return rows.to(torch.bfloat16).view(torch.uint8)
        if self.kv_dtype == "fp32":
            return rows.contiguous().view(torch.uint8)
        if self.kv_dtype == "fp8":
            return encode_e4m3(rows)
        tiles = rows[:, : self.rank].reshape(len(rows), -1, SCALE_TILE)
        largest = tiles.abs().amax(-1)
        scales = (largest / E4M3_MAX).clamp(min=FLOAT32_MIN_NORMAL)
        values = encode_e4m3(tiles / scales[..., None]).flatten(1)
        rotated = rows[:, self.rank :].to(torch.bfloat16).view(torch.uint8)
        return torch.cat((values, scales.view(torch.uint8), rotated), dim=1)

    def unpack(self, data: Tensor) -> Tensor:
        """float32 rows of contiguous bytes [n, row_bytes]."""
        if self.kv_dtype == "bf16":
            return data.view(torch.bfloat16).float()
        if self.kv_dtype == "fp32":
            return data.view(torch.float32)
        if self.kv_dtype == "fp8":
            return decode_e4m3(data)
        scales_end = self.rank + 4 * (self.rank // SCALE_TILE)
        scales = data[:, self.rank : scales_end].contiguous().view(torch.float32)
        rows = torch.empty(len(data), self.rank + self.rope, device=data.device)
        tiles = decode_e4m3(data[:, : self.rank]).view(len(data), -1, SCALE_TILE)
        torch.mul(tiles, scales[..., None], out=rows[:, : self.rank].view(tiles.shape))
        rows[:, self.rank :] = data[:, scales_end:].view(torch.bfloat16)
        return rows


@dataclass(frozen=True)
class IndexCodec:
    """Packs float32 index keys [n, head_dim] and unpacks whole index pages."""

    index_dtype: str
    page_size: int
    head_dim: int
    block_size: int

    @property
    def key_bytes(self) -> int:
        """Bytes of one token's key, its scale not counted."""
        return self.head_dim * (4 if self.index_dtype == "fp32" else 1)

    @property
    def scale_bytes(self) -> int:
        """Bytes of one token's scales."""
        return 0 if self.index_dtype == "fp32" else 4 * (self.head_dim // self.block_size)

    @property
    def page_bytes(self) -> int:
        """Bytes of one page in one layer."""
        return self.page_size * (self.key_bytes + self.scale_bytes)

    def pack(self, keys: Tensor) -> tuple[Tensor, Tensor]:
        """(key bytes [n, key_bytes], scale bytes [n, scale_bytes]) of float32 keys."""
        if self.index_dtype == "fp32":
            return keys.contiguous().view(torch.uint8), keys.new_empty(len(keys), 0).byte()
        blocks = keys.reshape(len(keys), -1, self.block_size)
        scales = power_of_two_at_least(blocks.abs().amax(-1).clamp(min=1e-4) / E4M3_MAX)
        data = encode_e4m3(blocks / scales[..., None]).flatten(1)
        return data, scales.view(torch.uint8)

    def unpack_pages(self, pages: Tensor) -> Tensor:
        """float32 keys [n * page_size, head_dim] of contiguous page bytes [n, page_bytes]."""
        if self.index_dtype == "fp32":
            return pages.view(torch.float32).view(-1, self.head_dim)
        keys_end = self.page_size * self.key_bytes
        keys = decode_e4m3(pages[:, :keys_end])
        scales = pages[:, keys_end:].contiguous().view(torch.float32)
        blocks = keys.view(-1, self.head_dim // self.block_size, self.block_size)
        return blocks.mul_(scales.view(*blocks.shape[:2], 1)).view(-1, self.head_dim)


def power_of_two_at_least(values: Tensor) -> Tensor:
    """The smallest power of two not below each positive float32 value. Exact: no logarithm."""
    mantissa, exponent = torch.frexp(values)  # values = mantissa * 2**exponent, mantissa in [.5, 1)
    exponent = exponent - (mantissa == 0.5).to(exponent.dtype)
    return torch.ldexp(torch.ones_like(values), exponent)


def latent_codec(config: DsaConfig) -> LatentCodec:
    """The latent rows of a model."""
    return LatentCodec(config.kv_dtype, config.kv_lora_rank, config.rope.dim)


def index_codec(config: DsaConfig) -> IndexCodec:
    """The index pages of a model."""
    return IndexCodec(
        config.index_dtype, config.page_size, config.index_head_dim, config.index_block_size
    )
