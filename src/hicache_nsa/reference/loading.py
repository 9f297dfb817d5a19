"""The reference model of a transformers model."""

from __future__ import annotations

from typing import Any

from .hf_config import config_from_hf
from .hf_weights import weights_from_hf
from .model import ReferenceModel


def from_transformers(
    model: Any,
    *,
    kv_dtype: str = "fp8_ds_mla",
    index_dtype: str = "fp8",
    page_size: int = 64,
    block_rows: int = 16,
) -> ReferenceModel:
    """A float32 copy of a DeepseekV32ForCausalLM or GlmMoeDsaForCausalLM.

    Reads `model.config` and `model.state_dict()`.

    ValueError for a config that is not computed here (biases, another activation or rope type).
    """
    config = config_from_hf(
        model.config,
        kv_dtype=kv_dtype,
        index_dtype=index_dtype,
        page_size=page_size,
        block_rows=block_rows,
    )
    return ReferenceModel(config, weights_from_hf(config, model.state_dict()))
