"""What is not supported is refused by name, before anything is computed or changed."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from small_models import CACHE, PAGE, counted, generate, llama, make, prompt_of
from transformers import (
    BambaConfig,
    BambaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    T5Config,
    T5ForConditionalGeneration,
)

from hicache_nsa import HiCacheError
from hicache_nsa.integrations.transformers import PrefixCache, PromptUse

PROMPT = prompt_of(30)
IDS = torch.tensor([PROMPT])


@pytest.fixture(scope="module")
def plain() -> PreTrainedModel:
    return make("llama")


@pytest.fixture
def warm(plain: PreTrainedModel, make_cache: Callable[..., PrefixCache]) -> PrefixCache:
    """A cache that has PROMPT."""
    cache = make_cache(plain)
    generate(plain, PROMPT, cache)
    cache.drain()
    return cache


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_beams": 2}, r"shape \(2, 30\).*one sequence at a time.*num_beams"),
        ({"num_return_sequences": 2, "do_sample": True}, r"\(2, 30\).*num_return_sequences"),
        ({"input_ids": IDS.expand(3, -1)}, r"shape \(3, 30\).*once a prompt"),
        ({"input_ids": None, "inputs_embeds": torch.zeros(1, 4, 64)}, "not inputs_embeds"),
        ({"attention_mask": torch.tensor([[0, 0] + [1] * 28])}, "2 zeros in 30 tokens.*padding"),
        (
            {"input_ids": IDS[:, :1], "attention_mask": torch.tensor([[0]])},
            "1 zeros in 1 tokens.*without padding",
        ),
        ({"cache_implementation": "quantized"}, "cache_implementation"),
        ({"cache_implementation": "static"}, "cache_implementation"),
    ],
)
def test_generate_refuses(
    arguments: dict[str, Any], message: str, plain: PreTrainedModel, warm: PrefixCache
) -> None:
    given = {"input_ids": IDS, "max_new_tokens": 4, "do_sample": False, **arguments}
    before = warm.stats()
    with counted(plain) as counts, pytest.raises(ValueError, match=message):
        plain.generate(**given, **{CACHE: warm})
    assert counts == []
    assert warm.stats() == before
    warm.check()
    generate(plain, PROMPT, warm)
    assert warm.last_prompt == PromptUse(30, 24, 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "holds 41 tokens of a sequence and the forward starts at position None.*from 41 on"),
        ({"position_ids": torch.arange(7, 37)[None]}, "starts at position 7"),
        ({"position_ids": torch.arange(30)[None] // 2}, "must ascend by one"),
        ({"position_ids": torch.arange(30).expand(3, 1, 30)}, "one position a token"),
        ({"attention_mask": torch.ones(1, 1, 30, 30)}, r"attention_mask of shape \(1, 1, 30, 30\)"),
        ({"labels": IDS}, "labels: .*token ids alone"),
        ({"pixel_values": [torch.zeros(1)], "token_type_ids": IDS}, "pixel_values, token_type_ids"),
        ({"logits_to_keep": torch.tensor([3])}, r"as a Tensor of shape \(1,\).*pass an int"),
        ({"logits_to_keep": torch.tensor(3)}, r"as a Tensor of shape \(\).*pass an int"),
        ({"logits_to_keep": np.array([3])}, r"as a ndarray of shape \(1,\).*pass an int"),
        ({"logits_to_keep": np.int64(-5)}, "logits_to_keep=-5 counts"),
        ({"logits_to_keep": 3.0}, r"must be an int, the number of last tokens, got 3.0 \(float\)"),
        ({"logits_to_keep": True}, r"got True \(bool\)"),
        ({"logits_to_keep": "3"}, r"got '3' \(str\)"),
        (
            {
                "input_ids": IDS[:, :1],
                "position_ids": torch.tensor([[41]]),
                "attention_mask": torch.tensor([[0] + [1] * 41]),
            },
            "1 zeros in 42 tokens.*without padding",
        ),
        (
            {"position_ids": torch.arange(30)[None], "logits_to_keep": -5},
            "logits_to_keep=-5 counts from a first token",
        ),
        ({"input_ids": IDS[:, :0]}, "one token at least"),
    ],
)
def test_forward_refuses(
    arguments: dict[str, Any], message: str, plain: PreTrainedModel, warm: PrefixCache
) -> None:
    refused = pytest.raises((ValueError, TypeError), match=message)
    with counted(plain) as counts, refused:
        plain(**{"input_ids": IDS, CACHE: warm, **arguments})
    assert counts == []
    warm.check()
    going_on = {"input_ids": IDS[:, :1], "position_ids": torch.tensor([[41]]), CACHE: warm}
    plain(**going_on)  # the sequence is still there


def test_an_extra_key_that_is_none_changes_nothing(
    plain: PreTrainedModel, warm: PrefixCache
) -> None:
    warm.extra_key = ["a", "list"]
    before = warm.stats()
    with (
        counted(plain) as counts,
        pytest.raises(TypeError, match="extra_key must be a str, bytes, int or a tuple"),
    ):
        plain(input_ids=IDS, position_ids=torch.arange(30)[None], **{CACHE: warm})
    assert counts == []
    assert warm.stats() == before
    warm.check()
    going_on = {"input_ids": IDS[:, :1], "position_ids": torch.tensor([[41]]), CACHE: warm}
    plain(**going_on)  # the sequence is still there, and goes on under its own key
    warm.extra_key = None
    generate(plain, PROMPT, warm)
    assert warm.last_prompt == PromptUse(30, 24, 0)


def test_training_mode_is_refused(warm: PrefixCache, plain: PreTrainedModel) -> None:
    plain.train()
    try:
        with pytest.raises(ValueError, match=r"training mode: call model.eval\(\)"):
            generate(plain, PROMPT, warm)
    finally:
        plain.eval()
    generate(plain, PROMPT, warm)


def test_another_model_is_refused(warm: PrefixCache, plain: PreTrainedModel) -> None:
    for other in (make("llama"), copy.deepcopy(plain), plain.model):
        with pytest.raises(HiCacheError, match="belongs to a LlamaForCausalLM"):
            other(input_ids=IDS, **{CACHE: warm})
    warm.check()
    generate(plain, PROMPT, warm)
    assert warm.last_prompt == PromptUse(30, 24, 0)


def test_a_model_that_was_changed_is_refused(make_cache: Callable[..., PrefixCache]) -> None:
    model = make("llama")
    cache = make_cache(model)
    generate(model, PROMPT, cache)
    model.double()
    with pytest.raises(ValueError, match=r"float64 .*was made for .*float32.*Make the PrefixCache"):
        generate(model, PROMPT, cache)
    model.float()
    assert generate(model, PROMPT, cache) == generate(model, PROMPT)


def test_copies_are_refused(warm: PrefixCache) -> None:
    for make_copy in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="hand the same one to every generate"):
            make_copy(warm)


def test_what_beams_and_batches_call_is_refused(warm: PrefixCache) -> None:
    with pytest.raises(ValueError, match="beam search is not supported"):
        warm.reorder_cache(torch.tensor([0]))
    with pytest.raises(ValueError, match="batch"):
        warm.batch_repeat_interleave(2)
    with pytest.raises(ValueError, match="batch"):
        warm.batch_select_indices(torch.tensor([0]))


def small_t5() -> PreTrainedModel:
    return T5ForConditionalGeneration(
        T5Config(vocab_size=30, d_model=16, d_kv=4, d_ff=16, num_layers=1, num_heads=2)
    )


def small_mistral(**changes: Any) -> PreTrainedModel:
    sizes = {"vocab_size": 30, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2}
    return MistralForCausalLM(MistralConfig(**{**sizes, **heads, "sliding_window": 8, **changes}))


def small_bamba() -> PreTrainedModel:
    return BambaForCausalLM(
        BambaConfig(
            vocab_size=30, hidden_size=16, intermediate_size=16, num_hidden_layers=2,
            num_attention_heads=2, num_key_value_heads=2, attn_layer_indices=[1],
            mamba_n_heads=4, mamba_d_head=8, mamba_d_state=8, mamba_n_groups=1,
        )
    )  # fmt: skip


def on_two_ranks() -> PreTrainedModel:
    model = llama()
    model._tp_size = 2
    return model


def dynamic_rope() -> PreTrainedModel:
    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
    return llama(rope_parameters=rope)


def on_meta() -> PreTrainedModel:
    with torch.device("meta"):
        return llama()


@pytest.mark.parametrize(
    ("make_model", "message"),
    [
        (small_t5, "T5ForConditionalGeneration is an encoder-decoder model; PrefixCache supports"),
        (small_mistral, "MistralForCausalLM: cache layer 0 is a DynamicSlidingWindowLayer"),
        (small_bamba, "BambaForCausalLM: cache layer 0 is a .*; PrefixCache supports"),
        (dynamic_rope, "LlamaForCausalLM has rope_type='dynamic'"),
        (on_two_ranks, "LlamaForCausalLM runs on 2 ranks"),
        (on_meta, "on the meta device: load its weights"),
    ],
)
def test_models_that_are_not_supported(
    make_model: Callable[[], PreTrainedModel], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        PrefixCache(make_model(), host_size="1MiB")


def test_a_mistral_without_a_window_is_supported(make_cache: Callable[..., PrefixCache]) -> None:
    model = small_mistral(sliding_window=None).eval()
    cache = make_cache(model)
    prompt = [token % 30 for token in PROMPT]
    assert generate(model, prompt, cache) == generate(model, prompt)


def test_no_model() -> None:
    for wrong in (None, torch.nn.Linear(2, 2)):
        with pytest.raises(TypeError, match="must be a transformers PreTrainedModel"):
            PrefixCache(wrong, host_size="1MiB")


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({}, ValueError, "exactly one of host_pages and host_size"),
        ({"host_size": "1MiB", "host_pages": 3}, ValueError, "exactly one of host_pages"),
        ({"host_size": "1KiB"}, ValueError, "1024 bytes, one page of 'transformers/llama' takes"),
        ({"host_pages": 4, "page_size": 0}, ValueError, "page_size=0"),
        ({"host_pages": 4, "page_size": "64"}, TypeError, "page_size must be an int"),
        ({"host_pages": 4, "device_pages": 0}, ValueError, "device_pages=0"),
        (
            {"host_pages": 4, "device_pages": 2, "device_size": "1MiB"},
            ValueError,
            "one of device_pages and device_size",
        ),
        ({"host_pages": 4, "device_size": "1KiB"}, ValueError, "device_size='1KiB' is 1024 bytes"),
        ({"host_pages": 4, "layout": "sideways"}, ValueError, "layout='sideways' is unknown"),
        ({"host_pages": 4, "device": "cuda"}, TypeError, "device is not an option"),
        ({"host_pages": 4, "acks": "poll"}, TypeError, "acks is not an option"),
        ({"host_pages": 4, "colour": 1}, TypeError, "colour"),
        ({"host_pages": 4, "extra_key": 1.5}, TypeError, "extra_key must be a str.*got float"),
        (
            {"host_pages": 4, "write_policy": "around"},
            ValueError,
            "write_policy='around' is unknown",
        ),
    ],
)
def test_options_are_checked_and_the_model_is_left_alone(
    options: dict[str, Any], kind: type[Exception], message: str, plain: PreTrainedModel
) -> None:
    hooks = len(plain._forward_pre_hooks)
    with pytest.raises(kind, match=message):
        PrefixCache(plain, **options)
    assert len(plain._forward_pre_hooks) == hooks


def test_device_size_counts_whole_pages(plain: PreTrainedModel) -> None:
    page_bytes = 3 * 2 * PAGE * 2 * 16 * 4  # layers, keys and values, tokens, heads, width, fp32
    size = 5 * page_bytes + 100
    with PrefixCache(plain, host_pages=9, device_size=size, page_size=PAGE) as cache:
        assert cache.hicache.format.page_bytes == page_bytes
        assert cache.stats().device.total_pages == 5
    with PrefixCache(plain, host_pages=9, page_size=PAGE) as cache:
        assert cache.stats().device.total_pages == 9
