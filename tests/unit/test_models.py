"""The table of models: bytes a token worked out by hand, and transformers' own defaults."""

from __future__ import annotations

import pytest
from transformers import AutoConfig

from hicache_nsa import formats
from hicache_nsa.formats.models import MODELS, model_format

BY_HAND = {
    "deepseek-v3.2": 61 * (656 + 132),
    "glm-5": 78 * (656 + 132),
    "deepseek-v3": 61 * 1152,
    "llama-3.1-8b": 32 * 2 * 8 * 128 * 2,
    "llama-3.1-70b": 80 * 2 * 8 * 128 * 2,
    "llama-3.1-405b": 126 * 2 * 8 * 128 * 2,
    "qwen2.5-7b": 28 * 2 * 4 * 128 * 2,
    "qwen2.5-72b": 80 * 2 * 8 * 128 * 2,
    "qwen3-8b": 36 * 2 * 8 * 128 * 2,
    "qwen3-32b": 64 * 2 * 8 * 128 * 2,
    "qwen3-30b-a3b": 48 * 2 * 4 * 128 * 2,
    "qwen3-235b-a22b": 94 * 2 * 4 * 128 * 2,
}


def test_every_model_has_its_bytes() -> None:
    assert {name: model_format(name).token_bytes for name in MODELS} == BY_HAND


def test_the_contract_of_deepseek_v32() -> None:
    kinds = {dtype: model_format("deepseek-v3.2", dtype) for dtype in ("fp8_ds_mla", "bf16", "fp8")}
    found = {dtype: (kind.token_bytes, kind.page_bytes) for dtype, kind in kinds.items()}
    assert found == {
        "fp8_ds_mla": (48_068, 3_076_352),
        "bf16": (78_324, 5_012_736),
        "fp8": (43_188, 2_764_032),
    }
    assert model_format("deepseek-v3.2") == formats.dsa(61)
    assert model_format("deepseek-v3.2", page_size=128) == formats.dsa(61, page_size=128)


@pytest.mark.parametrize(
    ("name", "model_type"),
    [
        ("deepseek-v3.2", "deepseek_v32"),
        ("glm-5", "glm_moe_dsa"),
        ("deepseek-v3", "deepseek_v3"),
    ],
)
def test_the_defaults_of_transformers_are_these_models(name: str, model_type: str) -> None:
    config = AutoConfig.for_model(model_type).to_dict()
    fields = MODELS[name].config
    assert {key: config[key] for key in fields} == dict(fields)
    assert formats.from_hf_config(config) == model_format(name)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"model='gpt' is unknown; known: deepseek-v3\.2, glm-5"):
        model_format("gpt")
    with pytest.raises(TypeError, match="model must be a string, got int"):
        model_format(3)  # type: ignore[arg-type]


def test_what_the_buffers_cannot_have() -> None:
    with pytest.raises(ValueError, match="fp8_ds_mla"):
        model_format("qwen3-8b", "fp8_ds_mla")
    with pytest.raises(ValueError, match="page_size=0"):
        model_format("glm-5", page_size=0)


def test_the_table_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        MODELS["x"] = MODELS["glm-5"]  # type: ignore[index]
    with pytest.raises(TypeError):
        MODELS["glm-5"].config["num_hidden_layers"] = 1  # type: ignore[index]
