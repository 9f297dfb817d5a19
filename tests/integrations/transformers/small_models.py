"""Small seeded models whose outputs depend on every cached byte, and what tests ask of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from transformers import (
    DeepseekV32Config,
    DeepseekV32ForCausalLM,
    GlmMoeDsaConfig,
    GlmMoeDsaForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
)

from hicache_nsa.integrations.transformers import PrefixCache

PAGE = 8
VOCABULARY = 300
NEW_TOKENS = 12
_COMMON = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    # Wide weights: with the usual 0.02 all logits are alike, and wrong bytes go unseen.
    "initializer_range": 0.3,
    "max_position_embeddings": 512,
    "bos_token_id": None,
    "eos_token_id": None,
}
_SPARSE = {
    **_COMMON,
    "num_key_value_heads": 4,
    "moe_intermediate_size": 32,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "kv_lora_rank": 32,
    "q_lora_rank": 32,
    "qk_rope_head_dim": 16,
    "qk_nope_head_dim": 16,
    "v_head_dim": 16,
    "index_topk": 12,
    "index_head_dim": 32,
    # A key that all heads score below 0 has score 0: with few heads there are many such ties, and
    # which of them are among the top-k depends on how a prompt is cut into forwards.
    "index_n_heads": 16,
    "first_k_dense_replace": 1,
}


def llama(**changes: Any) -> PreTrainedModel:
    return LlamaForCausalLM(LlamaConfig(**{**_COMMON, "num_key_value_heads": 2, **changes}))


def deepseek_v32() -> PreTrainedModel:
    return DeepseekV32ForCausalLM(DeepseekV32Config(**_SPARSE))


def glm_moe_dsa() -> PreTrainedModel:
    """Its second layer has no indexer of its own."""
    types = ["full", "shared", "full"]
    return GlmMoeDsaForCausalLM(GlmMoeDsaConfig(**_SPARSE, indexer_types=types))


MAKERS: dict[str, Callable[[], PreTrainedModel]] = {
    "llama": llama,
    "deepseek_v32": deepseek_v32,
    "glm_moe_dsa": glm_moe_dsa,
}
NEWER_NAME = "cache" in inspect.signature(LlamaForCausalLM.forward).parameters
CACHE = "cache" if NEWER_NAME else "past_key_values"  # what this transformers calls the argument


def make(name: str) -> PreTrainedModel:
    torch.manual_seed(11)
    return MAKERS[name]().eval()


def prompt_of(length: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(0, VOCABULARY, length).tolist()


def generate(
    model: PreTrainedModel, prompt: Sequence[int], cache: PrefixCache | None = None, **options: Any
) -> list[int]:
    """The tokens that follow ``prompt``, greedy, with ``cache`` or without any of ours."""
    given = {CACHE: cache} if cache is not None else {}
    options = {"max_new_tokens": NEW_TOKENS, "do_sample": False, **given, **options}
    whole = model.generate(torch.tensor([list(prompt)], device=model.device), **options)
    return whole[0, len(prompt) :].tolist()


def logits_of(
    model: PreTrainedModel, prompt: Sequence[int], cache: PrefixCache | None = None
) -> torch.Tensor:
    """Logits of every generated token, float32 [tokens, vocabulary]."""
    given = {CACHE: cache} if cache is not None else {}
    ids = torch.tensor([list(prompt)], device=model.device)
    output = model.generate(
        ids, max_new_tokens=NEW_TOKENS, do_sample=False,
        output_logits=True, return_dict_in_generate=True, **given,
    )  # fmt: skip
    return torch.cat(output.logits)


@contextmanager
def counted(model: PreTrainedModel) -> Iterator[list[int]]:
    """Collects how many tokens each forward really embeds: counted behind all of ours."""
    counts: list[int] = []

    def note(module: Any, args: tuple[Any, ...], output: torch.Tensor) -> None:
        counts.append(output.shape[1])

    handle = model.get_input_embeddings().register_forward_hook(note)
    try:
        yield counts
    finally:
        handle.remove()


def device_bytes(cache: PrefixCache, tokens: Sequence[int]) -> list[torch.Tensor]:
    """The bytes of the pages that hold ``tokens`` on the device, a tensor a buffer and layer."""
    pages = torch.from_numpy(cache.hicache.match_prefix(tokens, count=False).device_pages)
    buffers = cache.hicache.device_pool.buffers
    return [layer[pages].clone() for layers in buffers.values() for layer in layers]


def scramble(cache: PrefixCache) -> None:
    """Overwrite every device page, as another owner would."""
    for layers in cache.hicache.device_pool.buffers.values():
        for layer in layers:
            layer.fill_(7.5)
