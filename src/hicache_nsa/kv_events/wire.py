"""Batches of KV events as the routers of vLLM and SGLang read them: MessagePack.

Both engines publish ``[time, events, rank]``, each event a map with its ``type`` first. They name
tiers, hashes and namespaces differently.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import msgspec

from hicache_nsa.cache import Cleared, KvEvent, Removed, Stored

EXTRA_KEY_FIELDS = ("cache_salt", "lora_name")
"""What an ``extra_key`` may be for routers: a salt, or the name of a LoRA."""


@dataclass(frozen=True)
class WireFormat:
    """What differs. media: the names of tiers (``medium``). signed: hashes are int64, not uint64.

    blocks_have_extra_keys: namespaces stand in a list, an entry a block (vLLM); else in fields.
    """

    name: str
    media: MappingProxyType[str, str]
    signed: bool
    blocks_have_extra_keys: bool


FORMATS = {
    "vllm": WireFormat("vllm", MappingProxyType({"device": "GPU", "host": "CPU"}), False, True),
    "sglang": WireFormat(
        "sglang", MappingProxyType({"device": "GPU", "host": "CPU_PINNED"}), True, False
    ),
}
"""By name: vLLM 0.32 and SGLang 0.5.23."""

_encoder = msgspec.msgpack.Encoder()


def encode_batch(
    format: str,
    events: Iterable[KvEvent],
    *,
    seconds: float,
    dp_rank: int = 0,
    extra_key_as: str = "cache_salt",
) -> bytes:
    """One batch of ``events`` that happened until ``seconds`` (since 1970) on rank ``dp_rank``.

    extra_key_as: the routers' word for an ``extra_key``, one of ``EXTRA_KEY_FIELDS``.

    Raises:
        ValueError: an unknown ``format`` or ``extra_key_as``.
    """
    wire = wire_format(format)
    check_extra_key_as(extra_key_as)
    maps = [_event_map(wire, event, extra_key_as) for event in events]
    payload: bytes = _encoder.encode([seconds, maps, dp_rank])
    return payload


def wire_format(name: str) -> WireFormat:
    """The format of that name.

    Raises:
        ValueError: there is none; the names are in the message.
    """
    if name not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, got {name!r}")
    return FORMATS[name]


def check_extra_key_as(field: str) -> None:
    """Raise ``ValueError`` unless it is one of ``EXTRA_KEY_FIELDS``."""
    if field not in EXTRA_KEY_FIELDS:
        raise ValueError(
            f"extra_key_as must be one of {', '.join(EXTRA_KEY_FIELDS)}, got {field!r}"
        )


def _event_map(wire: WireFormat, event: KvEvent, extra_key_as: str) -> dict[str, Any]:
    if isinstance(event, Cleared):
        return {"type": "AllBlocksCleared"}
    hashes = _hashes(wire, event.page_keys)
    if isinstance(event, Removed):
        return {
            "type": "BlockRemoved",
            "block_hashes": hashes,
            "medium": wire.media[event.tier],
        }
    above = event.parent_key
    found: dict[str, Any] = {
        "type": "BlockStored",
        "block_hashes": hashes,
        "parent_block_hash": None if above is None else _hashes(wire, (above,))[0],
        "token_ids": event.tokens,
        "block_size": event.page_size,
        "lora_id": None,
        "medium": wire.media[event.tier],
    }
    names = {} if event.extra_key is None else {extra_key_as: event.extra_key}
    if not wire.blocks_have_extra_keys:
        return found | names
    found["lora_name"] = names.get("lora_name")
    if event.extra_key is not None:
        found["extra_keys"] = _extra_keys(event, extra_key_as)
    return found


def _extra_keys(event: Stored, extra_key_as: str) -> list[tuple[str, ...] | None]:
    """An entry a block: vLLM has the LoRA's name in each, a salt in a prompt's first one only."""
    assert event.extra_key is not None
    entry, blocks = (event.extra_key,), len(event.page_keys)
    if extra_key_as == "lora_name":
        return [entry] * blocks
    return [entry if event.parent_key is None else None, *[None] * (blocks - 1)]


def _hashes(wire: WireFormat, keys: tuple[int, ...]) -> list[int]:
    if wire.signed:
        return [key - (1 << 64) if key >> 63 else key for key in keys]
    return list(keys)
