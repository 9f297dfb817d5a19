"""Prefixes are reused across generate() calls, and the output is that of a model without us."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from small_models import (
    NEW_TOKENS,
    NEWER_NAME,
    PAGE,
    counted,
    device_bytes,
    generate,
    logits_of,
    make,
    prompt_of,
    scramble,
)
from transformers import Cache, PreTrainedModel

from hicache_nsa.integrations.transformers import PrefixCache, PromptUse
from hicache_nsa.testing import fail_next

MakeCache = Callable[..., PrefixCache]


def test_a_prompt_that_comes_again_is_a_device_hit(
    model: PreTrainedModel, cache: PrefixCache
) -> None:
    prompt = prompt_of(53)
    alone = generate(model, prompt)
    with counted(model) as counts:
        assert generate(model, prompt, cache) == alone
        assert counts == [53, *[1] * (NEW_TOKENS - 1)]
        counts.clear()
        assert generate(model, prompt, cache) == alone
        assert counts == [5, *[1] * (NEW_TOKENS - 1)]
    assert cache.last_prompt == PromptUse(53, 48, 0)
    assert cache.last_prompt.computed_tokens == 5


def test_after_a_flush_it_is_a_host_hit_with_the_same_bytes(
    model: PreTrainedModel, cache: PrefixCache
) -> None:
    prompt = prompt_of(53)
    alone = generate(model, prompt)
    answered = prompt + generate(model, prompt, cache)
    before = device_bytes(cache, answered)
    report = cache.reset()
    assert report.kept_host_tokens == 64  # of 53 + 12 tokens the last one is never computed
    scramble(cache)
    assert generate(model, prompt, cache) == alone
    assert cache.last_prompt == PromptUse(53, 0, 48)
    after = device_bytes(cache, answered)
    restored = 48 // PAGE
    assert len(before) == len(after) > 0
    for old, new in zip(before, after, strict=True):
        assert len(old) == len(new) == 64 // PAGE
        assert torch.equal(old[:restored], new[:restored])


def test_logits_are_those_of_a_prefill_in_chunks(
    model: PreTrainedModel, cache: PrefixCache
) -> None:
    prompt = prompt_of(53)
    alone = logits_of(model, prompt)
    assert alone.shape[0] == NEW_TOKENS
    assert alone.std() > 0.5  # not all alike
    for _ in range(2):
        torch.testing.assert_close(logits_of(model, prompt, cache), alone, rtol=0, atol=2e-4)
        cache.reset()


def test_an_answer_is_part_of_the_next_prompt(model: PreTrainedModel, cache: PrefixCache) -> None:
    turn = prompt_of(20)
    for number in range(3):
        computed = len(turn)
        turn = turn + generate(model, turn, cache) + prompt_of(7, seed=number + 1)
        alone = generate(model, turn)
        assert generate(model, turn, cache) == alone
        # All but the answer's last token was computed before: in whole pages.
        assert cache.last_prompt.device_hit_tokens >= (computed + NEW_TOKENS - 1) // PAGE * PAGE


@pytest.mark.parametrize("length", [1, PAGE - 1, PAGE, PAGE + 1, 5 * PAGE])
def test_lengths_around_pages(model: PreTrainedModel, cache: PrefixCache, length: int) -> None:
    prompt = prompt_of(length)
    alone = generate(model, prompt)
    for flush in (False, True):
        if flush:
            cache.reset()
        assert generate(model, prompt, cache) == alone
    # At least one token is computed, also of a prompt that is cached whole.
    assert cache.last_prompt == PromptUse(length, 0, (length - 1) // PAGE * PAGE)


def test_prompts_that_part_ways_share_what_they_share(
    model: PreTrainedModel, cache: PrefixCache
) -> None:
    shared = prompt_of(3 * PAGE + 3)
    for seed in range(4):
        prompt = shared + prompt_of(12, seed=seed + 1)
        assert generate(model, prompt, cache) == generate(model, prompt)
        assert cache.last_prompt.device_hit_tokens == (3 * PAGE if seed else 0)


def test_a_partial_hit_of_both_tiers(model: PreTrainedModel, cache: PrefixCache) -> None:
    prompt = prompt_of(50)
    alone = generate(model, prompt)
    generate(model, prompt, cache)
    cache.drain()
    evicted = cache.hicache.evict_device(40)  # from the tail: 60 tokens in 7 pages were cached
    assert evicted == 40
    assert generate(model, prompt, cache) == alone
    assert cache.last_prompt == PromptUse(50, 16, 32)


@pytest.mark.parametrize("name", ["past_key_values", "cache"])
def test_both_names_of_the_argument(name: str, make_cache: MakeCache) -> None:
    if name == "cache" and not NEWER_NAME:
        pytest.skip("this transformers has no generate(cache=)")
    model = make("deepseek_v32")
    cache = make_cache(model)
    prompt = prompt_of(30)
    ids = torch.tensor([prompt])
    for _ in range(2):
        whole = model.generate(ids, max_new_tokens=NEW_TOKENS, do_sample=False, **{name: cache})
        assert whole[0, 30:].tolist() == generate(model, prompt)
    assert cache.last_prompt == PromptUse(30, 24, 0)
    assert isinstance(cache, Cache)


def test_pages_of_64_and_the_default_device_pool() -> None:
    model = make("deepseek_v32")
    prompt = prompt_of(200)
    with PrefixCache(model, host_size="64MiB") as cache:
        assert cache.hicache.format.page_size == 64
        assert cache.stats().device.total_pages == 512 // 64  # the model's context
        generate(model, prompt, cache)
        cache.reset()
        assert generate(model, prompt, cache) == generate(model, prompt)
        assert cache.last_prompt == PromptUse(200, 0, 192)
        cache.check()


@pytest.mark.parametrize("layout", ["layer_first", "page_first", "page_first_direct"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_layouts_and_half_precision(layout: str, dtype: torch.dtype, make_cache: MakeCache) -> None:
    model = make("glm_moe_dsa").to(dtype)
    cache = make_cache(model, layout=layout)
    prompt = prompt_of(50)
    first = generate(model, prompt, cache)
    before = device_bytes(cache, prompt)
    cache.reset()
    scramble(cache)
    assert generate(model, prompt, cache)[0] == first[0]
    assert cache.last_prompt == PromptUse(50, 0, 48)
    for old, new in zip(before, device_bytes(cache, prompt), strict=True):
        assert old.dtype == dtype
        assert torch.equal(old, new)


def test_eviction_in_tiny_pools(model: PreTrainedModel, make_cache: MakeCache) -> None:
    cache = make_cache(model, host_pages=7, device_pages=5)
    for round_ in range(2):
        for seed in range(4):
            prompt = prompt_of(30, seed=seed)
            assert generate(model, prompt, cache, max_new_tokens=4) == generate(
                model, prompt, max_new_tokens=4
            )
            cache.check()
        if not round_:
            cache.reset()
    generate(model, prompt, cache, max_new_tokens=4)
    assert cache.last_prompt == PromptUse(30, 24, 0)
    stats = cache.stats()
    assert stats.evicted_device_tokens > 0
    assert stats.evicted_host_tokens > 0


def test_a_prompt_longer_than_the_device_pool_is_cached_in_part(make_cache: MakeCache) -> None:
    model = make("llama")
    cache = make_cache(model, device_pages=3)
    prompt = prompt_of(60)
    alone = generate(model, prompt)
    for _ in range(2):
        assert generate(model, prompt, cache) == alone
        cache.check()
    assert cache.last_prompt == PromptUse(60, 3 * PAGE, 0)
    cache.reset()
    assert generate(model, prompt, cache) == alone
    assert cache.last_prompt == PromptUse(60, 0, 3 * PAGE)


def test_without_a_host_tier(make_cache: MakeCache) -> None:
    model = make("llama")
    cache = make_cache(model, host_pages=0)
    prompt = prompt_of(30)
    alone = generate(model, prompt)
    for hits in (0, 24, 0):
        assert generate(model, prompt, cache) == alone
        assert cache.last_prompt == PromptUse(30, hits, 0)
        if hits:
            cache.reset()


def test_f05_a_load_that_fails_is_a_miss(model: PreTrainedModel, cache: PrefixCache) -> None:
    prompt = prompt_of(53)
    alone = generate(model, prompt)
    generate(model, prompt, cache)
    cache.reset()
    fail_next(cache, "h2d", after_pages=2)
    assert generate(model, prompt, cache) == alone
    assert cache.last_prompt.host_hit_tokens == 0
    assert cache.stats().failed_loads == 1
    cache.check()
    cache.reset()
    assert generate(model, prompt, cache) == alone
    assert cache.last_prompt == PromptUse(53, 0, 48)


def test_f05_a_save_that_fails_leaves_no_host_copy(
    model: PreTrainedModel, cache: PrefixCache
) -> None:
    prompt = prompt_of(53)
    fail_next(cache, "d2h")
    alone = generate(model, prompt, cache)
    cache.drain()
    assert cache.stats().failed_saves == 1
    assert generate(model, prompt, cache) == alone == generate(model, prompt)
    cache.reset()
    assert generate(model, prompt, cache) == alone


def test_f11_keys_share_nothing(model: PreTrainedModel, cache: PrefixCache) -> None:
    prompt = prompt_of(30)
    generate(model, prompt, cache)
    cache.extra_key = "adapter"
    generate(model, prompt, cache)
    assert cache.last_prompt == PromptUse(30, 0, 0)
    generate(model, prompt, cache)
    assert cache.last_prompt == PromptUse(30, 24, 0)
    cache.extra_key = None
    generate(model, prompt, cache)
    assert cache.last_prompt == PromptUse(30, 24, 0)


def test_f12_after_a_change_of_weights_a_flush_is_wrong_and_invalidate_right(
    model: PreTrainedModel, cache: PrefixCache
) -> None:
    prompt = prompt_of(53)
    generate(model, prompt, cache)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.05)
    alone = logits_of(model, prompt)
    cache.reset()
    assert not torch.allclose(logits_of(model, prompt, cache), alone, rtol=0, atol=1e-2)
    cache.invalidate()
    torch.testing.assert_close(logits_of(model, prompt, cache), alone, rtol=0, atol=2e-4)
    assert cache.last_prompt == PromptUse(53, 0, 0)


def test_random_prompts_that_share_prefixes(model: PreTrainedModel, make_cache: MakeCache) -> None:
    cache = make_cache(model, host_pages=20, device_pages=12)
    random = np.random.default_rng(5)
    known: list[list[int]] = [[]]
    hits = {"device": 0, "host": 0}
    for _ in range(20):
        parent = known[random.integers(len(known))]
        shared = parent[: random.integers(len(parent) + 1)]
        prompt = (shared + prompt_of(int(random.integers(1, 30)), int(random.integers(1000))))[:80]
        answer = generate(model, prompt, cache, max_new_tokens=6)
        assert answer == generate(model, prompt, max_new_tokens=6), prompt
        known.append(prompt + answer)
        hits["device"] += cache.last_prompt.device_hit_tokens
        hits["host"] += cache.last_prompt.host_hit_tokens
        step = random.integers(6)
        if step == 0:
            cache.reset()
            scramble(cache)
        elif step == 1:
            cache.hicache.evict_device(int(random.integers(60)))
        elif step == 2:
            fail_next(cache, "h2d")
        cache.check()
    assert min(hits.values()) > 0
