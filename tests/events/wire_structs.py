"""The published structs of both engines (vLLM 0.32, SGLang 0.5.23), for tests without them."""

from __future__ import annotations

from typing import Any

import msgspec

from hicache_nsa.cache import Cleared, KvEvent, Removed, Stored

TIERS = {"GPU": "device", "CPU": "host", "CPU_PINNED": "host"}


class VllmEvent(msgspec.Struct, omit_defaults=True, tag=lambda name: name[4:]):
    pass


class VllmBlockStored(VllmEvent):
    block_hashes: list[bytes | int]
    parent_block_hash: bytes | int | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None
    medium: str | None
    lora_name: str | None
    extra_keys: list[tuple[Any, ...] | None] | None = None
    group_idx: int | None = None
    kv_cache_spec_kind: str | None = None
    kv_cache_spec_sliding_window: int | None = None
    locality: str | None = None
    ownership: str | None = None
    session_id: str | None = None


class VllmBlockRemoved(VllmEvent):
    block_hashes: list[bytes | int]
    medium: str | None
    group_idx: int | None = None
    locality: str | None = None
    ownership: str | None = None


class VllmAllBlocksCleared(VllmEvent):
    pass


class VllmBatch(msgspec.Struct, array_like=True, omit_defaults=True):
    ts: float
    events: list[VllmBlockStored | VllmBlockRemoved | VllmAllBlocksCleared]
    data_parallel_rank: int | None = None


class SglangEvent(msgspec.Struct, omit_defaults=True, tag=lambda name: name[6:]):
    pass


class SglangBlockStored(SglangEvent):
    block_hashes: list[int]
    parent_block_hash: int | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None
    medium: str | None = None
    cache_salt: str | None = None
    session_id: str | None = None
    lora_name: str | None = None


class SglangBlockRemoved(SglangEvent):
    block_hashes: list[int]
    medium: str | None = None


class SglangAllBlocksCleared(SglangEvent):
    pass


class SglangBatch(msgspec.Struct, array_like=True):
    ts: float
    events: list[SglangBlockStored | SglangBlockRemoved | SglangAllBlocksCleared]
    attn_dp_rank: int | None = None


BATCHES = {"vllm": VllmBatch, "sglang": SglangBatch}


def event_of(event: Any) -> KvEvent:
    """What a router makes of a decoded event, of ours, of vLLM's or of SGLang's structs."""
    kind = type(event).__name__
    if kind.endswith("AllBlocksCleared"):
        return Cleared()
    keys = tuple(key % (1 << 64) for key in event.block_hashes)
    if kind.endswith("BlockRemoved"):
        return Removed(TIERS[event.medium], keys)
    parent = event.parent_block_hash
    return Stored(
        tier=TIERS[event.medium],
        page_keys=keys,
        parent_key=None if parent is None else parent % (1 << 64),
        tokens=tuple(event.token_ids),
        page_size=event.block_size,
        extra_key=getattr(event, "cache_salt", None) or event.lora_name,
    )
