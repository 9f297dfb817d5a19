"""PrefixCache with a model on the GPU: reuse, a flush, a failed load, a stream of the caller's."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers", minversion="5.17", reason="needs transformers 5.17 or newer")
sys.path.append(str(Path(__file__).parents[1] / "integrations" / "transformers"))

import torch
from small_models import (
    MAKERS,
    PAGE,
    device_bytes,
    generate,
    logits_of,
    make,
    prompt_of,
    scramble,
)

from hicache_nsa.integrations.transformers import PrefixCache, PromptUse
from hicache_nsa.testing import fail_next

PROMPT = prompt_of(53)


@pytest.fixture(params=list(MAKERS))
def model(request: pytest.FixtureRequest) -> Any:
    return make(request.param).to("cuda")


@pytest.fixture
def cache(model: Any) -> Iterator[PrefixCache]:
    with PrefixCache(model, host_pages=64, device_pages=32, page_size=PAGE) as made:
        yield made
        made.check()


def test_reuse_and_a_flush(model: Any, cache: PrefixCache) -> None:
    alone = logits_of(model, PROMPT)
    torch.testing.assert_close(logits_of(model, PROMPT, cache), alone, rtol=0, atol=1e-3)
    torch.testing.assert_close(logits_of(model, PROMPT, cache), alone, rtol=0, atol=1e-3)
    assert cache.last_prompt == PromptUse(53, 48, 0)
    before = device_bytes(cache, PROMPT)
    cache.reset()
    scramble(cache)
    torch.testing.assert_close(logits_of(model, PROMPT, cache), alone, rtol=0, atol=1e-3)
    assert cache.last_prompt == PromptUse(53, 0, 48)
    for old, new in zip(before, device_bytes(cache, PROMPT), strict=True):
        assert old.is_cuda
        assert torch.equal(old, new)


def test_a_load_that_fails_is_a_miss(model: Any, cache: PrefixCache) -> None:
    alone = generate(model, PROMPT, cache)
    cache.reset()
    fail_next(cache, "h2d", after_pages=2)
    assert generate(model, PROMPT, cache) == alone
    assert cache.last_prompt.host_hit_tokens == 0
    assert cache.stats().failed_loads == 1


def test_on_a_stream_of_the_callers(model: Any, cache: PrefixCache) -> None:
    alone = generate(model, PROMPT)
    with torch.cuda.stream(torch.cuda.Stream()):
        for flush in (False, True, False):
            for seed in range(4):  # 4 prompts of 8 pages in 32: pages change hands
                prompt = [*PROMPT[:16], *prompt_of(40, seed=seed + 1)]
                assert generate(model, prompt, cache) == generate(model, prompt)
            assert generate(model, PROMPT, cache) == alone
            if flush:
                cache.reset()
