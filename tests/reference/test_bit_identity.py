"""Logits and cached bytes depend on the tokens alone, to the bit: not on chunks, hits or pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from hicache_nsa.reference import MoeConfig, allocate_pools

LENGTH = 300  # 4 whole pages and a part
PAGES = torch.tensor([5, 0, 3, 1, 4])
MOE = MoeConfig(8, 2, 32, num_groups=4, groups_per_token=2, weight_scale=2.5)
KINDS = {
    "fp8_ds_mla": {},
    "bf16": {"kv_dtype": "bf16"},
    "fp8": {"kv_dtype": "fp8"},
    "fp32": {"kv_dtype": "fp32", "index_dtype": "fp32"},
    "experts": {"sparse_layers": (1, 2), "moe": MOE},
    "shared selection": {"index_layers": (0, 2)},
    "small pages": {"page_size": 16, "block_rows": 8},
}


def table(config: Any) -> torch.Tensor:
    return PAGES if config.page_size == 64 else torch.randperm(20)


def used_bytes(config: Any, pools: Any, pages: torch.Tensor, tokens: int) -> list[torch.Tensor]:
    """Bytes of the whole pages among the first tokens, every buffer and layer."""
    whole = pages[: tokens // config.page_size]
    return [pool[whole] for name in sorted(pools) for pool in pools[name]]


def same(left: list[torch.Tensor], right: list[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(left, right, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_resuming_at_any_page_gives_the_same_bits(
    make_model: Callable[..., Any], make_prompt: Callable[..., Any], kind: str
) -> None:
    model, prompt = make_model(**KINDS[kind]), make_prompt(LENGTH)
    config = model.config
    pages = table(config)
    cold = allocate_pools(config, 20)
    logits = model.prefill(prompt, pages, cold)
    written = used_bytes(config, cold, pages, LENGTH)
    step = config.page_size * (1 if config.page_size == 64 else 5)
    for hit in range(step, LENGTH, step):
        warm = {name: [torch.full_like(x, 0xFF) for x in cold[name]] for name in cold}
        other_pages = pages.flip(0) if config.page_size == 64 else torch.randperm(20)
        count = hit // config.page_size
        for name in warm:
            for source, target in zip(cold[name], warm[name], strict=True):
                target[other_pages[:count]] = source[pages[:count]]
        resumed = model.prefill(prompt, other_pages, warm, start=hit)
        assert torch.equal(resumed, logits), f"logits differ after a hit of {hit} tokens"
        assert same(used_bytes(config, warm, other_pages, LENGTH), written), f"hit of {hit}"


@pytest.mark.parametrize("chunk", [1, 16, 50, 64, 128, 1000])
def test_chunk_size_changes_no_bit(
    make_model: Callable[..., Any], make_prompt: Callable[..., Any], chunk: int
) -> None:
    model, prompt = make_model(), make_prompt(200 if chunk > 1 else 80)
    expected_pools, pools = (allocate_pools(model.config, 6) for _ in range(2))
    expected = model.prefill(prompt, PAGES, expected_pools)
    logits = torch.empty(0)
    for start in range(0, len(prompt), chunk):
        logits = model.forward_chunk(prompt[start : start + chunk], start, PAGES, pools)
    assert torch.equal(logits, expected)
    assert same(
        [pool for name in pools for pool in pools[name]],
        [pool for name in pools for pool in expected_pools[name]],
    )
    assert torch.equal(model.prefill(prompt, PAGES, pools, chunk=chunk), expected)


def test_pages_written_while_decoding_equal_pages_written_by_prefill(
    make_model: Callable[..., Any], make_prompt: Callable[..., Any]
) -> None:
    model, prompt = make_model(), make_prompt(100)
    decoded, prefilled = (allocate_pools(model.config, 6) for _ in range(2))
    logits = model.prefill(prompt, PAGES, decoded)
    answer = model.decode_greedy(logits, 100, 61, PAGES, decoded)
    whole = torch.cat((prompt, torch.tensor(answer[:-1])))
    last = model.prefill(whole, PAGES, prefilled)
    assert int(last.argmax()) == answer[-1]
    for name in decoded:
        assert same(decoded[name], prefilled[name]), name


def test_all_logits_equal_the_last_of_each_prefix(
    make_model: Callable[..., Any], make_prompt: Callable[..., Any]
) -> None:
    model, prompt = make_model(), make_prompt(130)
    pools = allocate_pools(model.config, 6)
    every = model.forward_chunk(prompt, 0, PAGES, pools, logits="all")
    assert every.shape == (130, 300)
    for length in (1, 64, 65, 129):
        short = model.prefill(prompt[:length], PAGES, allocate_pools(model.config, 6))
        assert torch.equal(short, every[length - 1])


def test_two_threads_resume_to_the_same_bits(
    make_model: Callable[..., Any], make_prompt: Callable[..., Any]
) -> None:
    torch.set_num_threads(2)
    model, prompt = make_model(), make_prompt(150)
    pools = allocate_pools(model.config, 6)
    logits = model.prefill(prompt, PAGES, pools)
    for hit in (64, 128):
        assert torch.equal(model.prefill(prompt, PAGES, pools, start=hit), logits)


def test_repeated_runs_and_models_are_identical(
    make_model: Callable[..., Any], make_prompt: Callable[..., Any]
) -> None:
    answers = []
    for _ in range(2):
        model, prompt = make_model(), make_prompt(150)
        pools = allocate_pools(model.config, 6)
        logits = model.prefill(prompt, PAGES, pools)
        answers.append(model.decode_greedy(logits, 150, 12, PAGES, pools))
    assert answers[0] == answers[1]
    assert len(set(answers[0])) > 6, "an answer that repeats itself would hide corruption"
