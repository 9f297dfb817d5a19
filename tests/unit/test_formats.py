"""The byte figures of the formats, and what they refuse."""

from __future__ import annotations

import pickle

import pytest

from hicache_nsa import formats
from hicache_nsa.formats import BufferFormat


@pytest.mark.parametrize(
    ("kv_dtype", "row", "token", "page"),
    [
        ("fp8_ds_mla", 656, 48_068, 3_076_352),
        ("bf16", 1152, 78_324, 5_012_736),
        ("fp8", 576, 43_188, 2_764_032),
        ("fp32", 2304, 61 * (2304 + 132), 64 * 61 * (2304 + 132)),
    ],
)
def test_deepseek_v32_bytes(kv_dtype: str, row: int, token: int, page: int) -> None:
    fmt = formats.dsa(61, kv_dtype=kv_dtype)
    assert fmt.buffer("latent").page_bytes == 64 * row
    assert fmt.buffer("index_k").page_bytes == 8192 + 256
    assert (fmt.token_bytes, fmt.page_bytes) == (token, page)
    assert (fmt.num_layers, fmt.page_size) == (61, 64)


def test_layers_without_an_indexer_hold_no_bytes_for_it() -> None:
    fmt = formats.dsa(4, index_layers=(1, 3))
    assert fmt.buffer("index_k").layers == (1, 3)
    assert fmt.page_bytes == 4 * 64 * 656 + 2 * 8448


def test_mla_and_mha() -> None:
    assert formats.mla(2, kv_dtype="bf16").page_bytes == 2 * 64 * 1152
    mha = formats.mha(3, 8, 128, dtype="bf16", page_size=16)
    assert [b.name for b in mha.buffers] == ["k", "v"]
    assert mha.page_bytes == 3 * 2 * 16 * 8 * 128 * 2


def test_extended_adds_a_companion_to_every_record() -> None:
    base = formats.dsa(61)
    both = base.extended(BufferFormat("mtp_latent", 64 * 656, (61,)))
    assert both.page_bytes == base.page_bytes + 64 * 656
    assert both.num_layers == 62
    assert both.fingerprint != base.fingerprint
    with pytest.raises(ValueError, match="different"):
        base.extended(BufferFormat("latent", 1, (0,)))


def test_token_bytes_is_exact() -> None:
    fmt = formats.PoolFormat("odd", 64, 1, (BufferFormat("x", 100, (0,)),))
    assert fmt.token_bytes == 100 / 64


def test_formats_are_values() -> None:
    fmt = formats.dsa(3)
    assert fmt == formats.dsa(3) and hash(fmt) == hash(formats.dsa(3))
    assert pickle.loads(pickle.dumps(fmt)) == fmt
    assert fmt != formats.dsa(3, kv_dtype="bf16")


def test_from_hf_config(tmp_path) -> None:
    config = {
        "model_type": "deepseek_v32", "num_hidden_layers": 61, "kv_lora_rank": 512,
        "qk_rope_head_dim": 64, "index_head_dim": 128, "index_topk": 2048,
    }  # fmt: skip
    assert formats.from_hf_config(config) == formats.dsa(61)
    path = tmp_path / "config.json"
    path.write_text(str(config).replace("'", '"'))
    assert formats.from_hf_config(path, kv_dtype="bf16") == formats.dsa(61, kv_dtype="bf16")
    assert formats.from_hf_config(tmp_path) == formats.dsa(61)
    del config["index_head_dim"]
    assert formats.from_hf_config(config) == formats.mla(61, kv_dtype="bf16")
    llama = {
        "num_hidden_layers": 2, "num_attention_heads": 32, "num_key_value_heads": 8,
        "hidden_size": 4096,
    }  # fmt: skip
    assert formats.from_hf_config(llama) == formats.mha(2, 8, 128, dtype="bf16")


def test_from_hf_config_skips_layers_that_share_an_indexer() -> None:
    config = {
        "num_hidden_layers": 6, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
        "index_head_dim": 128,
    }  # fmt: skip
    explicit = {**config, "indexer_types": ["full", "full", "shared", "full", "shared", "shared"]}
    assert formats.from_hf_config(explicit).buffer("index_k").layers == (0, 1, 3)
    pattern = {**config, "index_topk_pattern": "FFSFSS"}
    assert formats.from_hf_config(pattern).buffer("index_k").layers == (0, 1, 3)
    every_second = {**config, "index_topk_freq": 2}
    assert formats.from_hf_config(every_second).buffer("index_k").layers == (0, 1, 3, 5)
    with pytest.raises(ValueError, match="names 1 layers, the model has 6"):
        formats.from_hf_config({**config, "indexer_types": ["full"]})


def test_from_hf_config_of_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.DeepseekV32Config(num_hidden_layers=5)
    assert formats.from_hf_config(config) == formats.dsa(5)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: formats.dsa(0), ValueError, "num_layers=0"),
        (lambda: formats.dsa(True), TypeError, "num_layers"),
        (lambda: formats.dsa(2.0), TypeError, "num_layers"),
        (lambda: formats.dsa(2, kv_dtype="fp4"), ValueError, "bf16, fp8_ds_mla, fp8, fp32"),
        (lambda: formats.dsa(2, page_size=-1), ValueError, "page_size=-1"),
        (lambda: formats.dsa(2, kv_lora_rank=500), ValueError, "500 is no multiple"),
        (lambda: formats.dsa(2, index_head_dim=100), ValueError, "100 is no multiple"),
        (lambda: formats.dsa(2, index_layers=(0, 5)), ValueError, "layer 5"),
        (lambda: formats.dsa(2, index_layers=(1, 0)), ValueError, "ascend"),
        (lambda: formats.mha(2, 8, 128, dtype="int3"), ValueError, "fp8, bf16, fp16, fp32"),
        (lambda: formats.from_hf_config({}), ValueError, "num_hidden_layers"),
        (lambda: formats.from_hf_config("/nowhere/config.json"), ValueError, "can't read"),
        (lambda: formats.from_hf_config(3), TypeError, "int"),
        (lambda: BufferFormat("", 1, (0,)), ValueError, "name"),
        (lambda: BufferFormat("x", 0, (0,)), ValueError, "page_bytes"),
        (lambda: formats.dsa(2).buffer("k"), ValueError, "latent"),
        (lambda: formats.dsa(2).extended(), ValueError, "at least one"),
    ],
)
def test_bad_formats_are_refused(call, error, words: str) -> None:
    with pytest.raises(error, match=words):
        call()
