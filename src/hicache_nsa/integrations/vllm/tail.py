"""The last key of a request that is known to be on host, or on its way: the parent of the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass
class _Tail:
    """Kept in the request's context, one of each type."""

    key: bytes


def remember(keys: Sequence[bytes], req_context: Any) -> None:
    """``keys`` of the request were loaded or offered, in the order of its prompt."""
    if keys:
        req_context.set_state(_Tail(keys[-1]))


def parent_of(keys: Sequence[bytes], req_context: Any, tokens_per_chunk: int) -> bytes | None:
    """The key right in front of ``keys[0]`` in the request; None at its start, or if unknown.

    vLLM offers what is new only: after a load that begins in the middle of the prompt.
    """
    tail = req_context.get_state(_Tail)
    if tail is None or not keys:
        return None
    here = req_context.get_offload_key_position(keys[0])
    there = req_context.get_offload_key_position(tail.key)
    if here is None or there is None or here - there != tokens_per_chunk:
        return None
    key: bytes = tail.key
    return key
