"""The formats engines use, as byte counts.

Sources: ``fp8_ds_mla`` is the row of vLLM's and SGLang's sparse MLA caches (512 e4m3 values, one
fp32 scale per 128 of them, 64 bf16 rope values: 656 bytes). An ``index_k`` page is DeepGEMM's
paged indexer cache: the keys of all tokens first, then one fp32 scale per token and block.
"""

from __future__ import annotations

from collections.abc import Iterable

from hicache_nsa.formats.checks import layer_ids, one_of, positive_int
from hicache_nsa.formats.pool_format import BufferFormat, PoolFormat

LATENT_DTYPES = ("bf16", "fp8_ds_mla", "fp8", "fp32")
MHA_DTYPES = {"fp8": 1, "bf16": 2, "fp16": 2, "fp32": 4}
FP8_SCALE_BLOCK = 128
_ELEMENTS = {
    "bf16": ("bfloat16", "uint16", "int16"),
    "fp16": ("float16", "uint16", "int16"),
    "fp32": ("float32",),
    "fp8": ("float8_e4m3fn", "float8_e5m2"),
    "fp8_ds_mla": ("float8_e4m3fn",),
}


def latent_row_bytes(kv_dtype: str, kv_lora_rank: int, rope_head_dim: int) -> int:
    """Bytes of one token's latent row in one layer: 1152, 656, 576 or 2304 at 512 + 64."""
    if kv_dtype == "bf16":
        return 2 * (kv_lora_rank + rope_head_dim)
    if kv_dtype == "fp32":
        return 4 * (kv_lora_rank + rope_head_dim)
    if kv_dtype == "fp8":
        return kv_lora_rank + rope_head_dim
    if kv_lora_rank % FP8_SCALE_BLOCK:
        raise ValueError(
            f"fp8_ds_mla keeps one scale per {FP8_SCALE_BLOCK} values: "
            f"kv_lora_rank={kv_lora_rank} is no multiple of it"
        )
    return kv_lora_rank + kv_lora_rank // FP8_SCALE_BLOCK * 4 + 2 * rope_head_dim


def dsa(
    num_layers: int,
    *,
    kv_dtype: str = "fp8_ds_mla",
    page_size: int = 64,
    kv_lora_rank: int = 512,
    rope_head_dim: int = 64,
    index_head_dim: int = 128,
    index_block_size: int = 128,
    index_layers: Iterable[int] | None = None,
) -> PoolFormat:
    """DeepSeek-V3.2-style sparse attention: a latent row and an indexer key per token and layer.

    kv_dtype: ``bf16``, ``fp8_ds_mla``, ``fp8`` or ``fp32`` (the last for comparisons).
    index_layers: the layers that own an indexer; None means all. Others hold no bytes for it.
    """
    layers = layer_ids(num_layers)
    page_size = positive_int(page_size, "page_size")
    head = positive_int(index_head_dim, "index_head_dim")
    block = positive_int(index_block_size, "index_block_size")
    if head % block:
        raise ValueError(f"index_head_dim={head} is no multiple of index_block_size={block}")
    latent = _latent(layers, kv_dtype, page_size, kv_lora_rank, rope_head_dim)
    owners = layers if index_layers is None else tuple(index_layers)
    index_k = BufferFormat(
        "index_k", page_size * head + page_size * (head // block) * 4, owners, _ELEMENTS["fp8"]
    )
    return PoolFormat(f"dsa/{kv_dtype}", page_size, len(layers), (latent, index_k))


def mla(
    num_layers: int,
    *,
    kv_dtype: str,
    page_size: int = 64,
    kv_lora_rank: int = 512,
    rope_head_dim: int = 64,
) -> PoolFormat:
    """Multi-head latent attention without an indexer (DeepSeek-V2, V3, R1)."""
    layers = layer_ids(num_layers)
    page_size = positive_int(page_size, "page_size")
    latent = _latent(layers, kv_dtype, page_size, kv_lora_rank, rope_head_dim)
    return PoolFormat(f"mla/{kv_dtype}", page_size, len(layers), (latent,))


def mha(
    num_layers: int, num_kv_heads: int, head_dim: int, *, dtype: str, page_size: int = 64
) -> PoolFormat:
    """Plain or grouped-query attention: buffers ``k``, ``v``; dtype fp8, bf16, fp16 or fp32."""
    layers = layer_ids(num_layers)
    page_size = positive_int(page_size, "page_size")
    one_of(dtype, "dtype", tuple(MHA_DTYPES))
    row = positive_int(num_kv_heads, "num_kv_heads") * positive_int(head_dim, "head_dim")
    page_bytes = page_size * row * MHA_DTYPES[dtype]
    buffers = tuple(BufferFormat(name, page_bytes, layers, _ELEMENTS[dtype]) for name in "kv")
    return PoolFormat(f"mha/{dtype}", page_size, len(layers), buffers)


def _latent(
    layers: tuple[int, ...], kv_dtype: str, page_size: int, kv_lora_rank: int, rope_head_dim: int
) -> BufferFormat:
    one_of(kv_dtype, "kv_dtype", LATENT_DTYPES)
    row = latent_row_bytes(
        kv_dtype,
        positive_int(kv_lora_rank, "kv_lora_rank"),
        positive_int(rope_head_dim, "rope_head_dim"),
    )
    return BufferFormat("latent", page_size * row, layers, _ELEMENTS[kv_dtype])
