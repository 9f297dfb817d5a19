"""What a model's forward is called with, as far as a ``PrefixCache`` has to know it."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np
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
        ValueError, TypeError: what a PrefixCache cannot serve, with the next step; nothing was
            computed.
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
    wanted = _logits_to_keep(arguments.get("logits_to_keep"))
    mask = _checked_mask(arguments.get("attention_mask"))
    count = ids.shape[1]
    tokens, positions, unmasked = _to_host(ids, arguments.get("position_ids"), mask)
    if mask is not None and not unmasked:
        raise ValueError(
            f"attention_mask has {int((mask == 0).sum())} zeros in {mask.shape[1]} tokens: pass "
            f"the prompt without padding (generate() takes every pad_token_id in it for padding, "
            f"unless it is handed a mask of ones)"
        )
    if positions and positions != list(range(positions[0], positions[0] + count)):
        raise ValueError(
            f"position_ids of {count} tokens go from {positions[0]} to {positions[-1]}, they must "
            f"ascend by one: pass the prompt without padding"
        )
    return ForwardCall(tokens, positions[0] if positions else None, max(1, wanted))


def without_first(arguments: dict[str, Any], count: int) -> dict[str, Any]:
    """The arguments without the first ``count`` tokens, which the cache holds already.

    logits_to_keep becomes an int: models take what is none for positions.
    """
    rest = dict(arguments)
    if rest.get("logits_to_keep") is not None:
        rest["logits_to_keep"] = _logits_to_keep(rest["logits_to_keep"])
    for name in ("input_ids", "position_ids"):
        if count and rest.get(name) is not None:
            rest[name] = rest[name][:, count:]
    return rest


def _logits_to_keep(wanted: Any) -> int:
    """How many last tokens need logits; 0: all that are computed, None is the same."""
    if wanted is None:
        return 0
    if isinstance(wanted, (torch.Tensor, np.ndarray)):
        raise ValueError(
            f"logits_to_keep as a {type(wanted).__name__} of shape {tuple(wanted.shape)} counts "
            f"tokens that may not be computed: pass an int, the number of last tokens"
        )
    try:
        number = operator.index(wanted)
    except TypeError:
        number = None
    if number is None or isinstance(wanted, bool):
        raise TypeError(
            f"logits_to_keep must be an int, the number of last tokens, got {wanted!r} "
            f"({type(wanted).__name__})"
        )
    if number < 0:
        raise ValueError(
            f"logits_to_keep={number} counts from a first token that may not be computed: pass the "
            f"number of last tokens, 0 for those that are computed"
        )
    return number


def _checked_mask(mask: Any) -> torch.Tensor | None:
    if mask is None:
        return None
    if not isinstance(mask, torch.Tensor) or mask.ndim != 2:
        shape = tuple(mask.shape) if isinstance(mask, torch.Tensor) else type(mask).__name__
        raise ValueError(
            f"attention_mask of shape {shape}: a PrefixCache is for causal attention over whole "
            f"prompts; pass none, or ones of shape (1, tokens)"
        )
    return mask


def _to_host(
    ids: torch.Tensor, positions: torch.Tensor | None, mask: torch.Tensor | None
) -> tuple[list[int], list[int], bool]:
    """Token ids, positions (empty: none given), and whether the mask has no zero."""
    parts = [ids[0].long()]
    if positions is not None:
        if tuple(positions.shape) != tuple(ids.shape):
            raise ValueError(
                f"position_ids of shape {tuple(positions.shape)} for input_ids of shape "
                f"{tuple(ids.shape)}: a PrefixCache needs one position a token"
            )
        parts.append(positions[0].long())
    if mask is not None:
        parts.append(mask.all().long()[None])
    count = ids.shape[1]
    flat = torch.cat([part.to(ids.device) for part in parts]).tolist()
    unmasked = mask is None or bool(flat.pop())
    return flat[:count], flat[count:], unmasked


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
