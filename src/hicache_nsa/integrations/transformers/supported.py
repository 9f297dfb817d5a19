"""Which models a ``PrefixCache`` can serve; the others are refused by name."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicIndexedLayer, DynamicLayer

LAYERS = (DynamicLayer, DynamicIndexedLayer)
CACHE_NAMES = ("cache", "past_key_values")  # as forward() calls it: the newer name first
# Keys computed at one length differ from those computed at another: a prefix has no KV of its own.
_ROPE_BY_LENGTH = ("dynamic", "longrope")
_SUPPORTED = (
    "PrefixCache supports decoder-only models whose cache layers are DynamicLayer (full attention) "
    "or DynamicIndexedLayer (DeepseekV32ForCausalLM, GlmMoeDsaForCausalLM)"
)


def cache_name(model: PreTrainedModel) -> str:
    """What ``model.forward`` calls its cache, checked with all else that the model must have.

    Raises:
        TypeError: not a model of transformers. ValueError: a model that is not supported.
    """
    if not isinstance(model, PreTrainedModel):
        raise TypeError(
            f"model must be a transformers PreTrainedModel, got {type(model).__name__}; hand in "
            f"the model itself, not a wrapper around it"
        )
    name, config = type(model).__name__, model.config
    if config.is_encoder_decoder:
        raise ValueError(f"{name} is an encoder-decoder model; {_SUPPORTED}")
    if model.device.type == "meta":
        raise ValueError(f"{name} is on the meta device: load its weights first")
    if (model.tp_size or 1) > 1:
        raise ValueError(
            f"{name} runs on {model.tp_size} ranks, which may find different prefixes; a "
            f"PrefixCache serves a model on one device"
        )
    parameters = inspect.signature(model.forward).parameters
    known = [known for known in CACHE_NAMES if known in parameters]
    if not known or "position_ids" not in parameters:
        raise ValueError(
            f"{name}.forward takes {', '.join(parameters)}; it needs position_ids and one of "
            f"{', '.join(CACHE_NAMES)}; {_SUPPORTED}"
        )
    for kind in _rope_types(config.get_text_config(decoder=True)):
        if kind in _ROPE_BY_LENGTH:
            raise ValueError(
                f"{name} has rope_type={kind!r}: its keys depend on the length of the whole "
                f"prompt, so prompts cannot share them; the types {_ROPE_BY_LENGTH} are not "
                f"supported"
            )
    return known[0]


def new_layers(model: PreTrainedModel) -> list[DynamicLayer]:
    """Empty cache layers as transformers makes them for ``model``.

    Raises:
        ValueError: a layer that keeps something else than all its tokens' rows.
    """
    try:
        layers = DynamicCache(config=model.config).layers
    except KeyError as error:
        raise ValueError(
            f"{type(model).__name__}: transformers has no cache layer for {error}; {_SUPPORTED}"
        ) from error
    for index, layer in enumerate(layers):
        if type(layer) not in LAYERS:
            raise ValueError(
                f"{type(model).__name__}: cache layer {index} is a {type(layer).__name__}; "
                f"{_SUPPORTED}"
            )
    return list(layers)


def _rope_types(config: Any) -> Iterator[str]:
    """Every rope_type: there is one, or one a kind of layer."""
    parameters = getattr(config, "rope_parameters", None)
    if not isinstance(parameters, Mapping):
        return
    for group in (parameters, *parameters.values()):
        if isinstance(group, Mapping) and isinstance(group.get("rope_type"), str):
            yield group["rope_type"]
