"""One decoder layer over all blocks of a chunk.

Order: project every block; wait until the layer's cached rows are there; write the chunk's own
rows; read index keys once for the whole chunk; then select, attend and run the MLP block by block.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .attention import Projected, attend, project
from .block import Block
from .config import DsaConfig
from .indexer import index_keys, index_scores, select_top_k
from .layers import mixture, mlp, rms_norm
from .pools import IndexPool, LatentPool, Pools
from .weights import IndexerWeights, LayerWeights, MoeWeights

WaitLayer = Callable[[int], Any]


@dataclass(frozen=True)
class Hidden:
    """What goes from layer to layer, per block."""

    rows: list[Tensor]  # hidden states [block_rows, hidden]
    selected: list[Tensor]  # tokens picked by the last indexer [block_rows, k]; empty before it


class DecoderLayer:
    """A layer bound to one request's pages."""

    def __init__(
        self, config: DsaConfig, weights: LayerWeights, layer: int, pools: Pools, pages: Tensor
    ) -> None:
        self._config, self._weights, self._layer = config, weights, layer
        self._latent = LatentPool(config, pools["latent"][layer], pages)
        self._index: IndexPool | None = None
        if layer in config.index_layers:
            pool = pools["index_k"][config.index_layers.index(layer)]
            self._index = IndexPool(config, pool, pages)

    def forward(
        self, hidden: Hidden, blocks: list[Block], wait_layer: WaitLayer | None = None
    ) -> Hidden:
        """Compute the layer and write the asked rows' latent rows and index keys."""
        projected = [self._project(x, block) for x, block in zip(hidden.rows, blocks, strict=True)]
        if wait_layer is not None:
            wait_layer(self._layer)
        positions = torch.cat([block.positions[block.asked] for block in blocks])
        self._latent.write(positions, _asked([made.latent for made in projected], blocks))
        selected = hidden.selected
        indexer = self._weights.attention.indexer
        if self._index is not None and indexer is not None:
            keys = [
                index_keys(self._config, indexer, p.x, b)
                for p, b in zip(projected, blocks, strict=True)
            ]
            self._index.write(positions, _asked(keys, blocks))
            selected = self._select(indexer, self._index, projected, blocks)
        rows = [
            self._finish(x, made, chosen, block)
            for x, made, chosen, block in zip(hidden.rows, projected, selected, blocks, strict=True)
        ]
        return Hidden(rows, selected)

    def _project(self, x: Tensor, block: Block) -> Projected:
        normed = rms_norm(x, self._weights.attention_norm, self._config.norm_eps)
        return project(self._config, self._weights.attention, normed, block)

    def _select(
        self,
        indexer: IndexerWeights,
        pool: IndexPool,
        projected: list[Projected],
        blocks: list[Block],
    ) -> list[Tensor]:
        """Each row's tokens, by the index keys that are in the pool."""
        cached = pool.read_pages(blocks[-1].context_pages)
        selected = []
        for made, block in zip(projected, blocks, strict=True):
            keys = cached[: block.context_pages * self._config.page_size]
            scores = index_scores(self._config, indexer, made.x, made.compressed_query, keys, block)
            selected.append(select_top_k(scores, self._config.index_topk))
        return selected

    def _finish(self, x: Tensor, made: Projected, selected: Tensor, block: Block) -> Tensor:
        """Attention over the selected tokens, then the MLP, each added to the hidden states."""
        config, weights = self._config, self._weights
        x = x + attend(
            config, weights.attention, made.query, selected, self._latent, block.positions
        )
        normed = rms_norm(x, weights.mlp_norm, config.norm_eps)
        if isinstance(weights.mlp, MoeWeights):
            if config.moe is None:
                raise ValueError(f"layer {self._layer} has expert weights but config.moe is None")
            return x + mixture(normed, weights.mlp, config.moe)
        return x + mlp(normed, weights.mlp)


def _asked(rows: list[Tensor], blocks: list[Block]) -> Tensor:
    """The asked rows of all blocks, one after the other."""
    return torch.cat([x[block.asked] for x, block in zip(rows, blocks, strict=True)])
