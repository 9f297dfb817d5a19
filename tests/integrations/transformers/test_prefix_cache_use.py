"""Other ways of generate() and forward(), interruptions, and the life of the object."""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from small_models import (
    CACHE,
    NEW_TOKENS,
    PAGE,
    counted,
    generate,
    logits_of,
    make,
    prompt_of,
)
from transformers import DynamicCache, PreTrainedModel

from hicache_nsa import HiCacheError, LoadBack
from hicache_nsa.integrations.transformers import PrefixCache, PromptUse, prefix_cache
from hicache_nsa.integrations.transformers.supported import new_layers

PROMPT = prompt_of(53)


def forward(model: PreTrainedModel, tokens: list[int], cache: Any, **more: Any) -> Any:
    with torch.no_grad():
        return model(input_ids=torch.tensor([tokens]), **{CACHE: cache}, **more)


def positions(start: int, count: int) -> torch.Tensor:
    return torch.arange(start, start + count)[None]


def test_a_prefill_in_chunks_reuses_pages_in_each(
    model: PreTrainedModel, cache: PrefixCache
) -> None:
    alone = generate(model, PROMPT)
    assert generate(model, PROMPT, cache, prefill_chunk_size=20) == alone
    with counted(model) as counts:
        assert generate(model, PROMPT, cache, prefill_chunk_size=20) == alone
    # Of 20 tokens 16 come back, of 20 more those from 20 to 32, of the last 13 those from 40 to 48.
    assert counts[:3] == [4, 8, 5]
    assert cache.last_prompt == PromptUse(53, 16 + 12 + 8, 0)


def test_prompt_lookup_decoding(model: PreTrainedModel, cache: PrefixCache) -> None:
    prompt = PROMPT[:20] * 2
    alone = generate(model, prompt)
    for _ in range(2):
        assert generate(model, prompt, cache, prompt_lookup_num_tokens=4) == alone
        cache.check()
        cache.reset()
    assert generate(model, prompt + alone, cache) == generate(model, prompt + alone)


def test_an_assistant_model(make_cache: Callable[..., PrefixCache]) -> None:
    model, assistant = make("llama"), make("llama")
    cache = make_cache(model)
    alone = generate(model, PROMPT)
    for hits in (0, 48):
        assert generate(model, PROMPT, cache, assistant_model=assistant) == alone
        assert cache.last_prompt.device_hit_tokens == hits


def test_sampling_draws_the_same_tokens(model: PreTrainedModel, cache: PrefixCache) -> None:
    answers = []
    for given in (None, cache, cache):
        torch.manual_seed(3)
        answers.append(generate(model, PROMPT, given, do_sample=True, temperature=0.5))
    assert answers[0] == answers[1] == answers[2]
    assert cache.last_prompt.device_hit_tokens == 48


def test_an_end_of_sequence(model: PreTrainedModel, cache: PrefixCache) -> None:
    alone = generate(model, PROMPT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model.generation_config, "eos_token_id", alone[5])
        patch.setattr(model.generation_config, "pad_token_id", alone[5])
        for given in (None, cache, cache):
            assert generate(model, PROMPT, given) == alone[: alone.index(alone[5]) + 1]


def test_forwards_of_ones_own(model: PreTrainedModel, cache: PrefixCache) -> None:
    generate(model, PROMPT, cache)
    plain = DynamicCache(config=model.config)
    expected = [forward(model, PROMPT, plain).logits[0, -1]]
    expected += [forward(model, [token], plain).logits[0, -1] for token in (5, 6)]
    logits = [forward(model, PROMPT, cache, position_ids=positions(0, 53)).logits]
    assert logits[0].shape[1] == 5  # those of the tokens that were computed
    logits += [
        forward(model, [token], cache, position_ids=positions(53 + i, 1)).logits
        for i, token in enumerate((5, 6))
    ]
    for got, want in zip(logits, expected, strict=True):
        torch.testing.assert_close(got[0, -1], want, rtol=0, atol=2e-4)


def test_the_last_logits_asked_for_are_computed(model: PreTrainedModel, cache: PrefixCache) -> None:
    expected = forward(model, PROMPT, DynamicCache(config=model.config)).logits[:, -20:]
    for hits, keep in ((0, 20), (32, 20), (32, np.int64(20)), (32, np.uint8(20))):
        more = {"position_ids": positions(0, 53), "logits_to_keep": keep}
        logits = forward(model, PROMPT, cache, **more).logits
        assert cache.last_prompt == PromptUse(53, hits, 0)
        torch.testing.assert_close(logits, expected, rtol=0, atol=2e-4)


def test_crop_goes_back_and_on(model: PreTrainedModel, cache: PrefixCache) -> None:
    plain = DynamicCache(config=model.config)
    forward(model, PROMPT[:40], plain)
    expected = forward(model, PROMPT[:3], plain).logits
    forward(model, PROMPT, cache)
    cache.crop(-13)
    cache.check()
    logits = forward(model, PROMPT[:3], cache, position_ids=positions(40, 3)).logits
    torch.testing.assert_close(logits, expected, rtol=0, atol=2e-4)


def test_two_caches_of_one_model_and_a_plain_one(
    make_cache: Callable[..., PrefixCache],
) -> None:
    model = make("deepseek_v32")
    first, second = make_cache(model), make_cache(model, page_size=4)
    alone = generate(model, PROMPT)
    for _ in range(2):
        assert generate(model, PROMPT, first) == generate(model, PROMPT, second) == alone
        assert generate(model, PROMPT) == alone
    assert first.last_prompt == PromptUse(53, 48, 0)
    assert second.last_prompt == PromptUse(53, 52, 0)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, RuntimeError])
def test_a_forward_that_is_interrupted_leaves_nothing_behind(
    kind: type[BaseException], model: PreTrainedModel, cache: PrefixCache
) -> None:
    alone = generate(model, PROMPT)

    def interrupt(*args: Any) -> None:
        raise kind("stop")

    for layer in (0, 1):
        hook = model.model.layers[layer].mlp.register_forward_pre_hook(interrupt)
        with pytest.raises(kind, match="stop"):
            generate(model, PROMPT, cache)
        hook.remove()
        with pytest.raises(ValueError, match="holds 0 tokens"):
            forward(model, [1], cache, position_ids=positions(53, 1))
        assert generate(model, PROMPT, cache) == alone
        cache.check()
    assert cache.last_prompt == PromptUse(53, 48, 0)


def test_a_load_that_is_interrupted_leaves_no_lock(
    model: PreTrainedModel, cache: PrefixCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    generate(model, PROMPT, cache)
    cache.reset()

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt("stop")

    with monkeypatch.context() as patch:
        patch.setattr(LoadBack, "wait", interrupt)
        with pytest.raises(KeyboardInterrupt, match="stop"):
            generate(model, PROMPT, cache)
    cache.drain()
    assert cache.stats().device.locked_pages == 0
    assert cache.stats().host.locked_pages == 0
    assert generate(model, PROMPT, cache) == generate(model, PROMPT)


def test_a_sequence_stays_in_its_thread(cache: PrefixCache, model: PreTrainedModel) -> None:
    generate(model, PROMPT, cache)
    held = 53 + NEW_TOKENS - 1
    errors: list[BaseException] = []

    def elsewhere() -> None:
        try:
            forward(model, [1], cache, position_ids=positions(held, 1))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert len(errors) == 1
    assert "same thread" in str(errors[0])
    forward(model, [1], cache, position_ids=positions(held, 1))


def test_a_forward_beside_that_of_another_thread_is_refused(
    cache: PrefixCache, model: PreTrainedModel
) -> None:
    inside, go_on = threading.Event(), threading.Event()
    answers: list[list[int]] = []

    def wait(*args: Any) -> None:
        inside.set()
        go_on.wait()

    hook = model.model.layers[1].register_forward_pre_hook(wait)
    thread = threading.Thread(target=lambda: answers.append(generate(model, PROMPT, cache)))
    thread.start()
    inside.wait()
    hook.remove()
    try:
        with pytest.raises(HiCacheError, match="another thread"):
            generate(model, PROMPT, cache)
    finally:
        go_on.set()
        thread.join()
    assert answers == [generate(model, PROMPT)]


def test_of_two_threads_that_begin_at_once_one_is_refused(
    cache: PrefixCache, model: PreTrainedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    both, one_refused = threading.Barrier(2), threading.Event()
    answers: list[list[int]] = []
    errors: list[str] = []

    def meet(of: PreTrainedModel) -> Any:
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(0.5)  # the other one must not come here meanwhile
        return new_layers(of)

    def run() -> None:
        try:
            answers.append(generate(model, PROMPT, cache))
        except HiCacheError as error:
            errors.append(str(error))
            one_refused.set()

    def wait(*_: Any) -> None:
        one_refused.wait(30)

    monkeypatch.setattr(prefix_cache, "new_layers", meet)
    model.model.layers[1].register_forward_pre_hook(wait)
    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    monkeypatch.undo()
    assert len(errors) == 1
    assert "forward of another thread" in errors[0]
    assert answers == [generate(model, PROMPT)]


def test_a_flush_ends_the_sequence(cache: PrefixCache, model: PreTrainedModel) -> None:
    for flush in (cache.reset, cache.clear, cache.invalidate):
        forward(model, PROMPT, cache)
        flush()
        with pytest.raises(ValueError, match="holds 0 tokens of a sequence"):
            forward(model, [1], cache, position_ids=positions(53, 1))
        cache.check()
    assert cache.drain(30) and cache.stats().host.free_pages == 64


def test_close_leaves_the_model_as_it_was(model: PreTrainedModel) -> None:
    hooks = (dict(model._forward_pre_hooks), dict(model._forward_hooks))
    with PrefixCache(model, host_pages=8, page_size=PAGE) as cache:
        generate(model, PROMPT, cache)
    assert (model._forward_pre_hooks, model._forward_hooks) == hooks
    with pytest.raises(HiCacheError, match="closed"):
        generate(model, PROMPT, cache)
    with pytest.raises(HiCacheError, match="closed"):
        cache.stats()
    cache.close()


def test_a_cache_that_is_forgotten_takes_its_hooks_along() -> None:
    model = make("llama")
    cache = PrefixCache(model, host_pages=8, page_size=PAGE)
    generate(model, PROMPT, cache)
    assert len(model._forward_pre_hooks) == 1
    del cache
    gc.collect()
    assert len(model._forward_pre_hooks) == len(model._forward_hooks) == 0


def test_inference_mode_and_gradients(make_cache: Callable[..., PrefixCache]) -> None:
    model = make("deepseek_v32")
    with torch.inference_mode():
        cache = make_cache(model)
        alone = logits_of(model, PROMPT)
        logits_of(model, PROMPT, cache)
    output = model(
        input_ids=torch.tensor([PROMPT]), position_ids=positions(0, 53), **{CACHE: cache}
    )
    assert cache.last_prompt == PromptUse(53, 48, 0)
    torch.testing.assert_close(output.logits[0, -1], alone[0], rtol=0, atol=2e-4)
