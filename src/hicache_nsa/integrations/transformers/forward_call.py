"""What a model's forward is called with, as far as a ``PrefixCache`` has to know it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

_KNOWN_TENSORS = ("input_ids", "position_ids", "attention_mask")


@dataclass(frozen=True)
class ForwardCall:
    """One forward over one sequence.

    tokens: the ids handed in. first: position of the first of them, None if the caller leaves it
    to the cache. keep: how many of the last tokens have to be computed, for their logits.
    """

    tokens: list[int]
    first: int | None
    keep: int


def read_call(arguments: dict[str, Any]) -> ForwardCall:
    """Check the arguments of a forward, by name, and read them. One wait for the device.

    Raises:
        ValueError: what a PrefixCache cannot serve, with the next step; nothing was computed.
    """
    ids = arguments.get("input_ids")
    if ids is None:
        raise ValueError(
            "a PrefixCache finds prefixes by their token ids: pass input_ids, not inputs_embeds"
        )
    if ids.ndim != 2 or ids.shape[0] != 1 or ids.shape[1] == 0:
        raise ValueError(
            f"input_ids of shape {tuple(ids.shape)}: a PrefixCache computes one sequence at a "
            f"time, of one token at least. Call generate() once a prompt, without num_beams, "
            f"num_return_sequences and guidance that make several of one (use a DynamicCache there)"
        )
    _refuse_unknown(arguments)
    count = ids.shape[1]
    tokens, positions = _to_host(ids, arguments.get("position_ids"))
    if positions and positions != list(range(positions[0], positions[0] + count)):
        raise ValueError(
            f"position_ids of {count} tokens go from {positions[0]} to {positions[-1]}, they must "
            f"ascend by one: pass the prompt without padding"
        )
    _check_mask(arguments.get("attention_mask"), count)
    wanted = arguments.get("logits_to_keep")
    if wanted is not None and not isinstance(wanted, int):
        raise ValueError(
            "logits_to_keep as a tensor counts tokens that may not be computed: pass an int, the "
            "number of last tokens"
        )
    if wanted is not None and wanted < 0:
        raise ValueError(
            f"logits_to_keep={wanted} counts from a first token that may not be computed: pass the "
            f"number of last tokens, 0 for those that are computed"
        )
    return ForwardCall(tokens, positions[0] if positions else None, max(1, wanted or 1))


def without_first(arguments: dict[str, Any], count: int) -> dict[str, Any]:
    """The arguments without the first ``count`` tokens, which the cache holds already."""
    rest = dict(arguments)
    for name in ("input_ids", "position_ids"):
        if count and rest.get(name) is not None:
            rest[name] = rest[name][:, count:]
    return rest


def _to_host(ids: torch.Tensor, positions: torch.Tensor | None) -> tuple[list[int], list[int]]:
    if positions is None:
        return ids[0].tolist(), []
    if tuple(positions.shape) != tuple(ids.shape):
        raise ValueError(
            f"position_ids of shape {tuple(positions.shape)} for input_ids of shape "
            f"{tuple(ids.shape)}: a PrefixCache needs one position a token"
        )
    both = torch.stack([ids[0].long(), positions[0].long().to(ids.device)]).tolist()
    return both[0], both[1]


def _check_mask(mask: Any, count: int) -> None:
    if mask is None:
        return
    if not isinstance(mask, torch.Tensor) or mask.ndim != 2:
        shape = tuple(mask.shape) if isinstance(mask, torch.Tensor) else type(mask).__name__
        raise ValueError(
            f"attention_mask of shape {shape}: a PrefixCache is for causal attention over whole "
            f"prompts; pass none, or ones of shape (1, tokens)"
        )
    if count > 1 and not bool(mask.all()):  # one token: generate() appends a one
        zeros = int((mask == 0).sum())
        raise ValueError(
            f"attention_mask has {zeros} zeros in {mask.shape[1]} tokens: pass the prompt without "
            f"padding (generate() takes every pad_token_id in it for padding, unless it is handed "
            f"a mask of ones)"
        )


def _refuse_unknown(arguments: dict[str, Any]) -> None:
    """Images, embeddings, token types, labels: what a token id doesn't tell."""
    more = [
        name
        for name, value in arguments.items()
        if name not in _KNOWN_TENSORS and name != "logits_to_keep" and _has_tensor(value)
    ]
    if more:
        raise ValueError(
            f"{', '.join(more)}: a PrefixCache knows a prefix by its token ids alone and cannot "
            f"serve a forward with more; call it with a DynamicCache"
        )


def _has_tensor(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_has_tensor(part) for part in value)
    return isinstance(value, torch.Tensor)
