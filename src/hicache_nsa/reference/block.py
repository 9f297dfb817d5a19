"""Blocks: the unit of arithmetic.

A block is `block_rows` consecutive positions, aligned to multiples of `block_rows`. It is always
computed whole: rows that a call does not ask for are computed from token 0 and thrown away. Every
tensor a row goes through has therefore a shape that depends on the row's position alone, and in a
matrix product of one shape a row depends on no other row. So the logits and cached bytes of a
token are a function of the tokens up to it, bit for bit, wherever chunks and cache hits end (on
one machine, with one number of threads).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from .config import DsaConfig


@dataclass(frozen=True)
class Block:
    """Positions of one block and which of its rows a call asks for."""

    positions: Tensor  # int64 [block_rows]
    cos: Tensor  # float32 [block_rows, rope/2]
    sin: Tensor
    context_pages: int  # pages that hold this block and everything before it
    asked: slice  # rows that are written and returned

    def token_rows(self, tokens: Tensor, start: int) -> Tensor:
        """This block's rows of tokens [n] that begin at position `start`; 0 outside of them."""
        rows = torch.zeros_like(self.positions)
        first = int(self.positions[self.asked.start]) - start
        rows[self.asked] = tokens[first : first + self.asked.stop - self.asked.start]
        return rows


def blocks_of(config: DsaConfig, start: int, stop: int, device: torch.device) -> Iterator[Block]:
    """The blocks that hold positions start..stop-1."""
    size = config.block_rows
    for first in range(start - start % size, stop, size):
        positions = torch.arange(first, first + size, device=device)
        cos, sin = config.rope.cos_sin(positions)
        yield Block(
            positions=positions,
            cos=cos,
            sin=sin,
            context_pages=first // config.page_size + 1,
            asked=slice(max(start - first, 0), min(stop - first, size)),
        )
