"""The comparison can fail: pages that come back wrong change the output."""

from __future__ import annotations

import pytest
import torch
from small_models import PAGE, generate, logits_of, make, prompt_of
from transformers import PreTrainedModel

from hicache_nsa.integrations.transformers import PrefixCache

PROMPT = prompt_of(53)


def saved(model: PreTrainedModel) -> PrefixCache:
    """A cache whose only copies of PROMPT are on host."""
    cache = PrefixCache(model, host_pages=64, device_pages=64, page_size=PAGE)
    generate(model, PROMPT, cache)
    cache.reset()
    return cache


@pytest.mark.parametrize(
    ("name", "buffer", "mutation"),
    [
        *(("llama", buffer, "zero") for buffer in ("keys", "values")),
        *(
            ("deepseek_v32", buffer, mutation)
            for buffer in ("keys", "values", "indexer_keys")
            for mutation in ("zero", "swap", "shift")
        ),
        *(("glm_moe_dsa", buffer, "zero") for buffer in ("keys", "values", "indexer_keys")),
    ],
)
def test_f01_wrong_pages_of_any_buffer_change_the_output(
    name: str, buffer: str, mutation: str
) -> None:
    model = make(name)
    alone = logits_of(model, PROMPT)
    with saved(model) as cache:
        pages = cache.hicache.match_prefix(PROMPT, count=False).host_pages
        assert len(pages) == 6
        for layer in cache.hicache.format.buffer(buffer).layers:
            views = [cache.hicache.host_pool.page_view(buffer, layer, int(p)) for p in pages]
            if mutation == "zero":
                for view in views:
                    view[:] = 0
            elif mutation == "swap":
                copy = views[0].copy()
                views[0][:], views[5][:] = views[5], copy
            else:
                for view in views:
                    view[:] = list(view[-4:]) + list(view[:-4])
        wrong = logits_of(model, PROMPT, cache)
        assert cache.last_prompt.host_hit_tokens == 48
        assert not torch.allclose(wrong, alone, rtol=0, atol=1e-2)


@pytest.mark.parametrize("name", ["llama", "deepseek_v32", "glm_moe_dsa"])
def test_f01_pages_left_alone_do_not(name: str) -> None:
    model = make(name)
    alone = logits_of(model, PROMPT)
    with saved(model) as cache:
        torch.testing.assert_close(logits_of(model, PROMPT, cache), alone, rtol=0, atol=2e-4)
        assert cache.last_prompt.host_hit_tokens == 48


@pytest.mark.parametrize("name", ["deepseek_v32", "glm_moe_dsa"])
def test_f01_zeroed_indexer_keys_change_the_tokens(name: str) -> None:
    model = make(name)
    alone = generate(model, PROMPT)
    with saved(model) as cache:
        for page in cache.hicache.match_prefix(PROMPT, count=False).host_pages:
            for layer in cache.hicache.format.buffer("indexer_keys").layers:
                cache.hicache.host_pool.page_view("indexer_keys", layer, int(page))[:] = 0
        assert generate(model, PROMPT, cache) != alone
