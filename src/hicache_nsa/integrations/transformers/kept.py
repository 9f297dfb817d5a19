"""What a model's cache layers keep of a token, read off the layers after a forward of one token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from hicache_nsa.formats import BufferFormat, PoolFormat
from hicache_nsa.integrations.transformers.supported import cache_name, new_layers

NAMES = ("keys", "values", "indexer_keys")  # a layer's tensors [1, ..., tokens, width]


@dataclass(frozen=True)
class Kept:
    """One kind of tensor. rows: a token's shape in it, without batch and tokens: (heads, width),
    or (width,) for indexer keys. layers: ids of the layers that have it.
    """

    name: str
    rows: tuple[int, ...]
    dtype: torch.dtype
    layers: tuple[int, ...]

    @property
    def row_bytes(self) -> int:
        """Bytes of a token in one layer."""
        return torch.Size(self.rows).numel() * self.dtype.itemsize

    def check(self, states: torch.Tensor, layer: int, device: torch.device) -> None:
        """``ValueError`` if ``states``, about to go into ``layer``, are not of this kind."""
        rows = (*states.shape[1:-2], states.shape[-1])
        if (rows, states.dtype, states.device) != (self.rows, self.dtype, device):
            raise ValueError(
                f"layer {layer} hands in {self.name} of {rows} {states.dtype} a token on "
                f"{states.device}, this PrefixCache was made for {self.rows} {self.dtype} on "
                f"{device}: was the model changed or moved, or does it run under autocast? Make "
                f"the PrefixCache as the model is used"
            )


def find_kept(model: PreTrainedModel) -> dict[str, Kept]:
    """The tensors by name, from a forward of one token through an empty cache.

    Raises:
        ValueError: layers that differ, lie on several devices or keep more than these.
    """
    name = cache_name(model)
    cache = DynamicCache(config=model.config)
    cache.layers = new_layers(model)
    token = torch.zeros((1, 1), dtype=torch.long, device=model.device)
    with torch.no_grad():
        model(input_ids=token, use_cache=True, **{name: cache})
    _refuse_more(model, cache.layers)
    found = {name: _kind(model, name, cache.layers) for name in NAMES}
    kept = {name: kind for name, kind in found.items() if kind is not None}
    if "keys" not in kept or "values" not in kept:
        raise ValueError(f"{type(model).__name__} put no keys and values into its cache")
    return kept


def pool_format(model: PreTrainedModel, kept: dict[str, Kept], page_size: int) -> PoolFormat:
    """The format of a page of ``page_size`` tokens: one buffer for each kind."""
    buffers = tuple(
        BufferFormat(
            kind.name,
            page_size * kind.row_bytes,
            kind.layers,
            (str(kind.dtype).removeprefix("torch."),),
        )
        for kind in kept.values()
    )
    name = f"transformers/{model.config.model_type}"
    return PoolFormat(name, page_size, max(kept["keys"].layers) + 1, buffers)


def _kind(model: PreTrainedModel, name: str, layers: Sequence[DynamicLayer]) -> Kept | None:
    found = {
        index: tensor
        for index, layer in enumerate(layers)
        if (tensor := getattr(layer, name, None)) is not None
    }
    if not found:
        return None
    kinds = {((*t.shape[1:-2], t.shape[-1]), t.dtype, t.device) for t in found.values()}
    if len(kinds) > 1:
        listed = ", ".join(f"{rows} {dtype} on {device}" for rows, dtype, device in kinds)
        raise ValueError(
            f"{type(model).__name__}: the layers keep different {name} ({listed}); a PrefixCache "
            f"needs the same shape, dtype and device in all of them"
        )
    rows, dtype, _ = kinds.pop()
    return Kept(name, rows, dtype, tuple(found))


def _refuse_more(model: PreTrainedModel, layers: Sequence[DynamicLayer]) -> None:
    """A tensor that we don't know would not come back, and the output would be wrong."""
    for index, layer in enumerate(layers):
        more = [
            name
            for name, value in vars(layer).items()
            if isinstance(value, torch.Tensor) and name not in NAMES
        ]
        if more:
            raise ValueError(
                f"{type(model).__name__}: cache layer {index} keeps {', '.join(more)} beside "
                f"{', '.join(NAMES)}; such models are not supported"
            )
