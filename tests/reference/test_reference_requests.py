"""Arguments that cannot be right are refused before anything is written."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from hicache_nsa.reference import DsaConfig, allocate_pools


@pytest.mark.parametrize(
    ("tokens", "start", "pages", "message"),
    [
        ([], 0, [0], "0 tokens at position 0"),
        ([1], -1, [0], "1 tokens at position -1"),
        ([1, 300], 0, [0], r"1\.\.300 do not fit the vocabulary of 300"),
        ([-1], 0, [0], r"-1\.\.-1 do not fit"),
        ([1] * 65, 0, [0], "65 positions need 2 pages of 64; the page table has 1: allocate 1"),
        ([1], 64, [0, 6], r"0\.\.6 do not fit pools of 6 pages"),
        ([1], 0, [-1], r"-1\.\.-1 do not fit pools"),
        ([[1]], 0, [0], r"1-D integers, found torch.int64 of shape \(1, 1\)"),
        ([1.5], 0, [0], "1-D integers, found torch.float32"),
    ],
)
def test_bad_requests(
    make_model: Callable[..., Any], tokens: Any, start: int, pages: list[int], message: str
) -> None:
    model = make_model()
    pools = allocate_pools(model.config, 6)
    with pytest.raises(ValueError, match=message):
        model.forward_chunk(tokens, start, pages, pools)
    assert not any(pool.any() for name in pools for pool in pools[name])


def test_prefill_needs_a_token_to_compute(make_model: Callable[..., Any]) -> None:
    model = make_model()
    with pytest.raises(ValueError, match="start=3 leaves none of 3 tokens"):
        model.prefill([1, 2, 3], [0], allocate_pools(model.config, 1), start=3)


def test_lists_arrays_and_tensors_are_the_same(make_model: Callable[..., Any]) -> None:
    model = make_model()
    results = [
        model.prefill(make([1, 2, 3]), make([0]), allocate_pools(model.config, 1))
        for make in (list, np.array, torch.tensor)
    ]
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


def test_decoding_ends_after_a_stop_token(make_model: Callable[..., Any]) -> None:
    model = make_model()
    pools = allocate_pools(model.config, 2)
    logits = model.prefill([1, 2, 3], [1, 0], pools)
    answer = model.decode_greedy(logits, 3, 6, [1, 0], pools)
    assert len(answer) == 6
    shorter = model.decode_greedy(logits, 3, 6, [1, 0], pools, stop_tokens=[answer[2]])
    assert shorter == answer[: answer.index(answer[2]) + 1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kv_dtype": "int4"}, "'int4' is not one of bf16"),
        ({"index_dtype": "bf16"}, "'bf16' is not one of fp8"),
        ({"index_layers": (1, 2)}, "must begin with layer 0"),
        ({"index_layers": (0, 9)}, "ascending layer ids below 4"),
        ({"sparse_layers": (1,)}, "MoeConfig"),
        ({"block_rows": 48}, "block_rows=48 must divide page_size=64"),
        ({"index_head_dim": 100}, "index_head_dim=100"),
        ({"kv_lora_rank": 500}, "kv_lora_rank=500 must be a multiple of 128"),
    ],
)
def test_bad_configs(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(DsaConfig.demo(vocab_size=300), **change)
