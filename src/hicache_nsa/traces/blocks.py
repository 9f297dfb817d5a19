"""Prompts as ids of blocks, as Mooncake publishes them: an id stands for ``block_size`` tokens."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hicache_nsa.tokens import PageIds
from hicache_nsa.traces.lines import Row, TraceError

MOONCAKE_BLOCK = 512
MOST_ID = int(np.iinfo(np.int64).max)


class Blocks(NamedTuple):
    """One prompt. ids: int64, one for each ``block_size`` tokens; the last may be partial."""

    tokens: int
    ids: PageIds


def parse_blocks(
    row: Row, place: str, block_size: int, most: int = MOST_ID, *, all_whole: bool = False
) -> Blocks:
    """``hash_ids`` and ``input_length`` of a line.

    all_whole: a line may leave out its length where all of its blocks are whole.

    Raises:
        TraceError: no such line, ids outside 0 to ``most``, or more or fewer than the length takes.
    """
    ids, length = row.get("hash_ids"), row.get("input_length")
    if length is None and all_whole and isinstance(ids, list):
        length = len(ids) * block_size
    if type(length) is not int or length < 0:
        raise TraceError(f'{place}: "input_length" must be tokens, 0 or more, got {length!r}')
    if not isinstance(ids, list) or not all(type(id) is int and 0 <= id <= most for id in ids):
        raise TraceError(f'{place}: "hash_ids" must be a list of integers from 0 to {most}')
    expected = -(-length // block_size)
    if len(ids) != expected:
        raise TraceError(
            f"{place}: {len(ids)} blocks of {block_size} tokens for {length} tokens, "
            f"expected {expected}"
        )
    return Blocks(length, np.array(ids, dtype=np.int64))
