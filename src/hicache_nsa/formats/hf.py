"""Formats from a Hugging Face config: a dict, a config.json or its folder, a PretrainedConfig."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hicache_nsa.formats.builders import dsa, mha, mla
from hicache_nsa.formats.checks import positive_int
from hicache_nsa.formats.pool_format import PoolFormat


def from_hf_config(
    config: Mapping[str, Any] | str | os.PathLike[str] | Any,
    *,
    kv_dtype: str | None = None,
    page_size: int = 64,
) -> PoolFormat:
    """The format of the model that ``config`` describes.

    A config with ``index_head_dim`` gives ``dsa`` (DeepSeek-V3.2, GLM-5), one with
    ``kv_lora_rank`` gives ``mla``, any other ``mha``. Layers whose ``indexer_types`` entry is
    ``"shared"`` (GLM-5: they reuse another layer's top-k) own no indexer.
    kv_dtype: default ``fp8_ds_mla`` for dsa, ``bf16`` otherwise.

    Raises:
        ValueError: the file can't be read, or a field is missing (named in the message).
        TypeError: neither dict, path nor config object.
    """
    fields = _fields(config)
    text = fields.get("text_config")
    if isinstance(text, Mapping):
        fields = text
    elif text is not None and hasattr(text, "to_dict"):
        fields = text.to_dict()
    layers = _get(fields, "num_hidden_layers")
    if fields.get("index_head_dim") is not None:
        return dsa(
            layers,
            kv_dtype=kv_dtype or "fp8_ds_mla",
            page_size=page_size,
            kv_lora_rank=_get(fields, "kv_lora_rank"),
            rope_head_dim=_get(fields, "qk_rope_head_dim"),
            index_head_dim=_get(fields, "index_head_dim"),
            index_layers=_index_layers(fields, layers),
        )
    if fields.get("kv_lora_rank") is not None:
        return mla(
            layers,
            kv_dtype=kv_dtype or "bf16",
            page_size=page_size,
            kv_lora_rank=_get(fields, "kv_lora_rank"),
            rope_head_dim=_get(fields, "qk_rope_head_dim"),
        )
    heads = positive_int(_get(fields, "num_attention_heads"), "num_attention_heads")
    hidden = fields.get("hidden_size")
    head_dim = fields.get("head_dim") or positive_int(hidden, "hidden_size") // heads
    kv_heads = fields.get("num_key_value_heads") or heads
    return mha(layers, kv_heads, head_dim, dtype=kv_dtype or "bf16", page_size=page_size)


def _index_layers(fields: Mapping[str, Any], layers: int) -> tuple[int, ...] | None:
    """Layers that run an indexer; the three spellings are those of GLM-5's config."""
    kinds = fields.get("indexer_types")
    if kinds is None and isinstance(fields.get("index_topk_pattern"), str):
        kinds = ["full" if mark == "F" else "shared" for mark in fields["index_topk_pattern"]]
    if kinds is None and fields.get("index_topk_freq", 1) not in (None, 1):
        freq, offset = fields["index_topk_freq"], fields.get("index_skip_topk_offset", 2)
        kinds = ["full" if max(i - offset + 1, 0) % freq == 0 else "shared" for i in range(layers)]
    if kinds is None:
        return None
    if not isinstance(kinds, (list, tuple)):
        raise TypeError(f"indexer_types must be a list, got {type(kinds).__name__}")
    if len(kinds) != layers:
        raise ValueError(f"indexer_types names {len(kinds)} layers, the model has {layers}")
    return tuple(i for i, kind in enumerate(kinds) if kind == "full")


def _fields(config: Any) -> Mapping[str, Any]:
    if isinstance(config, Mapping):
        return config
    if isinstance(config, (str, os.PathLike)):
        path = Path(config)
        path = path / "config.json" if path.is_dir() else path
        try:
            loaded = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ValueError(f"can't read a model config from {path}: {error}") from error
        if not isinstance(loaded, dict):
            raise ValueError(f"{path} holds no JSON object but a {type(loaded).__name__}")
        return loaded
    if hasattr(config, "to_dict"):
        fields = config.to_dict()
        if isinstance(fields, Mapping):
            return fields
    raise TypeError(f"expected a dict, a path or a PretrainedConfig, got {type(config).__name__}")


def _get(fields: Mapping[str, Any], name: str) -> Any:
    if fields.get(name) is None:
        known = f"model_type={fields.get('model_type')!r}"
        raise ValueError(f"the model config ({known}) has no {name!r}")
    return fields[name]
