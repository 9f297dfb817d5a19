"""The bytes in the pools are the only memory: whatever is wrong there shows in the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from hicache_nsa.reference import allocate_pools

PAGES = torch.arange(6)
HIT = 256


@pytest.fixture
def case(make_model: Callable[..., Any], make_prompt: Callable[..., Any]) -> Any:
    """(model, prompt, pools after prefill, logits, greedy answer)."""
    model, prompt = make_model(), make_prompt(300)
    pools = allocate_pools(model.config, 6)
    logits = model.prefill(prompt, PAGES, pools)
    answer = model.decode_greedy(logits, 300, 8, PAGES, pools)
    return model, prompt, pools, logits, answer


def resumed(model: Any, prompt: torch.Tensor, pools: Any) -> tuple[torch.Tensor, list[int]]:
    logits = model.prefill(prompt, PAGES, pools, start=HIT)
    return logits, model.decode_greedy(logits, 300, 8, PAGES, pools)


def test_right_bytes_give_the_same_answer(case: Any) -> None:
    model, prompt, pools, logits, answer = case
    again, same = resumed(model, prompt, pools)
    assert torch.equal(again, logits)
    assert same == answer


def test_index_pages_of_zeros_change_the_answer(case: Any) -> None:
    model, prompt, pools, logits, answer = case
    for pool in pools["index_k"]:
        pool[: HIT // 64] = 0
    wrong, other = resumed(model, prompt, pools)
    assert (wrong - logits).abs().max() > 0.1 * logits.abs().max()
    assert other != answer


def test_index_pages_of_another_prompt_change_the_answer(
    case: Any, make_prompt: Callable[..., Any]
) -> None:
    model, prompt, pools, logits, answer = case
    foreign = allocate_pools(model.config, 6)
    model.prefill(make_prompt(300, seed=1), PAGES, foreign)
    for pool, other_pool in zip(pools["index_k"], foreign["index_k"], strict=True):
        pool[: HIT // 64] = other_pool[: HIT // 64]
    wrong, other = resumed(model, prompt, pools)
    assert (wrong - logits).abs().max() > 0.1 * logits.abs().max()
    assert other != answer


@pytest.mark.parametrize("buffer", ["latent", "index_k"])
@pytest.mark.parametrize("layer", [0, 1, 2])
def test_one_wrong_page_in_one_layer_changes_the_logits(case: Any, buffer: str, layer: int) -> None:
    model, prompt, pools, logits, _ = case
    page = pools[buffer][layer][2]
    page.copy_(pools[buffer][layer][1])
    wrong, _ = resumed(model, prompt, pools)
    assert not torch.equal(wrong, logits)


def test_nothing_is_remembered_between_chunks(case: Any) -> None:
    model, prompt, pools, logits, _ = case
    for name in pools:
        for pool in pools[name]:
            pool[:5] = 0
    again = model.prefill(prompt, PAGES, pools)
    assert torch.equal(again, logits)
    for name in pools:
        for pool in pools[name]:
            pool[:4] = 0
    assert not torch.equal(resumed(model, prompt, pools)[0], logits)


def test_bytes_that_are_no_numbers_do_not_reach_past_their_page(case: Any) -> None:
    model, prompt, pools, logits, _ = case
    for name in pools:
        for pool in pools[name]:
            pool[4:] = 0xFF  # NaN: the partial page to come and an unused one
    assert torch.equal(resumed(model, prompt, pools)[0], logits)


def test_each_layer_is_waited_for_before_its_pools_are_touched(case: Any) -> None:
    model, prompt, pools, logits, _ = case
    hidden = {name: [pool[:4].clone() for pool in pools[name]] for name in pools}
    for name in pools:
        for pool in pools[name]:
            pool[:4] = 0x7F
    arrived: list[int] = []

    def bring_back(layer: int) -> None:
        arrived.append(layer)
        for name in pools:
            pools[name][layer][:4] = hidden[name][layer]

    again = model.prefill(prompt, PAGES, pools, start=HIT, wait_layer=bring_back, chunk=16)
    assert arrived == [0, 1, 2]
    assert torch.equal(again, logits)


def test_a_failed_wait_is_passed_on_before_the_layer_writes(case: Any) -> None:
    model, prompt, pools, _, _ = case
    before = pools["latent"][1].clone()
    pools["latent"][1][4] = 0

    def fail(layer: int) -> None:
        if layer == 1:
            raise RuntimeError("copy failed")

    with pytest.raises(RuntimeError, match="copy failed"):
        model.prefill(prompt, PAGES, pools, start=HIT, wait_layer=fail)
    assert torch.equal(pools["latent"][1][:4], before[:4])
    assert not pools["latent"][1][4].any()
