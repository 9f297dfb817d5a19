"""The reference DSA model: chunked prefill and greedy decode over paged pools.

Chunks may have any length and begin anywhere: see `block.py` for why the results are the same to
the bit. Within a chunk, layers are computed one after the other, so a load that is still bringing
back later layers can be waited for one layer at a time.

On a busy CPU one thread (`torch.set_num_threads(1)`) beats several: these products are small, and
OpenMP threads that wait actively for a descheduled one cost more than they bring.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from .block import Block, blocks_of
from .config import DsaConfig
from .decoder import DecoderLayer, Hidden, WaitLayer
from .layers import rms_norm
from .pools import Pools, check_pools
from .request import Ids, as_ids, check_request
from .weights import ModelWeights

LOGITS = ("last", "all", "none")


class ReferenceModel:
    """A DSA model that keeps nothing of a request but what it writes into the pools."""

    def __init__(self, config: DsaConfig, weights: ModelWeights) -> None:
        self.config = config
        self.weights = weights

    @property
    def device(self) -> torch.device:
        """Where the weights are; tokens, page tables and results follow, pools must be there."""
        return self.weights.embedding.device

    @torch.inference_mode()
    def forward_chunk(
        self,
        tokens: Ids,
        start: int,
        page_table: Ids,
        pools: Pools,
        *,
        wait_layer: WaitLayer | None = None,
        logits: str = "last",
    ) -> Tensor:
        """Compute tokens [n] at positions start..start+n-1, write their rows, return logits.

        page_table: page i of the request, 1-D ids into the pools, at least up to the last
        position. Rows before `start` are read from the pools. `wait_layer(layer)` is called once
        a layer, before that layer touches the pools; what it raises is passed on.
        logits: "last" -> float32 [vocab] of the last token, "all" -> [n, vocab], "none" -> [0].
        ValueError for bad tokens, positions, page ids or pools, before anything is written.
        """
        if logits not in LOGITS:
            raise ValueError(f"logits={logits!r} is not one of {', '.join(LOGITS)}")
        token_ids = as_ids(tokens, self.device)
        pages = as_ids(page_table, self.device)
        check_pools(self.config, pools)
        check_request(self.config, token_ids, start, pages, pools)

        blocks = list(blocks_of(self.config, start, start + len(token_ids), self.device))
        rows = [self.weights.embedding[block.token_rows(token_ids, start)] for block in blocks]
        hidden = Hidden(rows, selected=[])
        for layer, weights in enumerate(self.weights.layers):
            decoder = DecoderLayer(self.config, weights, layer, pools, pages)
            hidden = decoder.forward(hidden, blocks, wait_layer)
        return self._logits(hidden.rows, blocks, logits)

    def prefill(
        self,
        tokens: Ids,
        page_table: Ids,
        pools: Pools,
        *,
        start: int = 0,
        wait_layer: WaitLayer | None = None,
        chunk: int | None = None,
    ) -> Tensor:
        """Compute tokens[start:] of a whole prompt, chunk by chunk; logits [vocab] of the last.

        `start`: tokens whose rows the pools hold already (a cache hit). Chunks end at multiples
        of `chunk` tokens, by default four pages; `wait_layer` is handed to the first.
        """
        token_ids = as_ids(tokens, self.device)
        pages = as_ids(page_table, self.device)
        size = chunk or 4 * self.config.page_size
        if not 0 <= start < len(token_ids):
            raise ValueError(f"start={start} leaves none of {len(token_ids)} tokens to compute")
        result = torch.empty(0)
        begin = start
        while begin < len(token_ids):
            end = min(begin + size - begin % size, len(token_ids))
            result = self.forward_chunk(
                token_ids[begin:end],
                begin,
                pages,
                pools,
                wait_layer=wait_layer if begin == start else None,
                logits="last" if end == len(token_ids) else "none",
            )
            begin = end
        return result

    def decode_step(
        self,
        token: int,
        position: int,
        page_table: Ids,
        pools: Pools,
        *,
        wait_layer: WaitLayer | None = None,
    ) -> Tensor:
        """Compute one token at `position`; logits [vocab] of the next."""
        return self.forward_chunk([token], position, page_table, pools, wait_layer=wait_layer)

    def decode_greedy(
        self,
        logits: Tensor,
        position: int,
        max_new_tokens: int,
        page_table: Ids,
        pools: Pools,
        *,
        stop_tokens: Sequence[int] = (),
    ) -> list[int]:
        """The most likely tokens from `position` on, `logits` being those of the first.

        The rows of all but the last token are written: the pages must reach
        position + max_new_tokens - 1. Ends after a stop token, which is part of the result.
        """
        answer: list[int] = []
        while len(answer) < max_new_tokens:
            answer.append(int(logits.argmax()))
            if answer[-1] in stop_tokens or len(answer) == max_new_tokens:
                break
            logits = self.decode_step(answer[-1], position + len(answer) - 1, page_table, pools)
        return answer

    def _logits(self, rows: list[Tensor], blocks: list[Block], which: str) -> Tensor:
        """Logits, a row at a time: their bits are the same for "last" and for "all"."""
        if which == "none":
            return torch.empty(0, device=self.device)
        normed = [rms_norm(x, self.weights.norm, self.config.norm_eps) for x in rows]
        asked = torch.cat([x[b.asked] for x, b in zip(normed, blocks, strict=True)])
        if which == "last":
            return F.linear(asked[-1], self.weights.head)
        return torch.stack([F.linear(row, self.weights.head) for row in asked])
