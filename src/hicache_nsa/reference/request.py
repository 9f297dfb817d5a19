"""Arguments of a call: conversion and checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .config import DsaConfig
from .pools import Pools

Ids = Sequence[int] | NDArray[np.integer[Any]] | Tensor


def as_ids(values: Ids, device: torch.device) -> Tensor:
    """int64 [n] of any 1-D sequence of ints: list, numpy array or tensor."""
    ids = torch.as_tensor(values).to(device)
    if ids.ndim != 1 or (ids.is_floating_point() and len(ids)):
        raise ValueError(f"expected 1-D integers, found {ids.dtype} of shape {tuple(ids.shape)}")
    return ids.to(torch.int64)


def check_request(
    config: DsaConfig, tokens: Tensor, start: int, page_table: Tensor, pools: Pools
) -> None:
    """ValueError unless the tokens can be computed at `start` through the page table."""
    if len(tokens) == 0 or start < 0:
        raise ValueError(f"{len(tokens)} tokens at position {start}: nothing can be computed")
    if int(tokens.min()) < 0 or int(tokens.max()) >= config.vocab_size:
        raise ValueError(
            f"token ids {int(tokens.min())}..{int(tokens.max())} do not fit the vocabulary of "
            f"{config.vocab_size}"
        )
    needed = -(-(start + len(tokens)) // config.page_size)
    if len(page_table) < needed:
        raise ValueError(
            f"{start + len(tokens)} positions need {needed} pages of {config.page_size}; the page "
            f"table has {len(page_table)}: allocate {needed - len(page_table)} more"
        )
    used = page_table[:needed]
    num_pages = min(len(pool) for group in pools.values() for pool in group)
    if int(used.min()) < 0 or int(used.max()) >= num_pages:
        raise ValueError(
            f"page ids {int(used.min())}..{int(used.max())} do not fit pools of {num_pages} pages"
        )
