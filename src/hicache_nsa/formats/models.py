"""Known models: what their configs say about KV, and the format that follows.

Each entry holds those fields of the config.json of the repository on the Hugging Face Hub that it
names which decide the bytes of a token: layers, KV heads and dimensions. Draft (MTP) layers are not
in it: an engine that caches their KV adds them with ``PoolFormat.extended``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from hicache_nsa.formats.checks import one_of
from hicache_nsa.formats.hf import from_hf_config
from hicache_nsa.formats.pool_format import PoolFormat


@dataclass(frozen=True)
class Model:
    """source: repository on the Hugging Face Hub. config: the fields of its config.json."""

    name: str
    source: str
    config: Mapping[str, Any]


def _sparse(name: str, source: str, layers: int) -> Model:
    """Latent rows of 512 + 64 values and an indexer key of 128, in every layer."""
    return _latent(name, source, layers, index_head_dim=128)


def _latent(name: str, source: str, layers: int, **more: int) -> Model:
    rows = {"num_hidden_layers": layers, "kv_lora_rank": 512, "qk_rope_head_dim": 64}
    return Model(name, source, MappingProxyType({**rows, **more}))


def _grouped(name: str, source: str, layers: int, heads: int, kv_heads: int) -> Model:
    """Grouped-query attention, 128 values a head."""
    config = {
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": 128,
    }
    return Model(name, source, MappingProxyType(config))


MODELS: Mapping[str, Model] = MappingProxyType(
    {
        model.name: model
        for model in (
            _sparse("deepseek-v3.2", "deepseek-ai/DeepSeek-V3.2", 61),
            _sparse("glm-5", "zai-org/GLM-5", 78),
            _latent("deepseek-v3", "deepseek-ai/DeepSeek-V3", 61),
            _grouped("llama-3.1-8b", "meta-llama/Llama-3.1-8B", 32, 32, 8),
            _grouped("llama-3.1-70b", "meta-llama/Llama-3.1-70B", 80, 64, 8),
            _grouped("llama-3.1-405b", "meta-llama/Llama-3.1-405B", 126, 128, 8),
            _grouped("qwen2.5-7b", "Qwen/Qwen2.5-7B", 28, 28, 4),
            _grouped("qwen2.5-72b", "Qwen/Qwen2.5-72B", 80, 64, 8),
            _grouped("qwen3-8b", "Qwen/Qwen3-8B", 36, 32, 8),
            _grouped("qwen3-32b", "Qwen/Qwen3-32B", 64, 64, 8),
            _grouped("qwen3-30b-a3b", "Qwen/Qwen3-30B-A3B", 48, 32, 4),
            _grouped("qwen3-235b-a22b", "Qwen/Qwen3-235B-A22B", 94, 64, 4),
        )
    }
)


def model_format(name: str, kv_dtype: str | None = None, page_size: int = 64) -> PoolFormat:
    """The format of a model of ``MODELS``.

    kv_dtype: None: ``fp8_ds_mla`` with an indexer, ``bf16`` otherwise.

    Raises:
        ValueError: an unknown model (the message lists the known ones), or a kv_dtype or page_size
            that its buffers can't have.
    """
    model = MODELS[one_of(name, "model", tuple(MODELS))]
    return from_hf_config(model.config, kv_dtype=kv_dtype, page_size=page_size)
