"""A conversation with a small random DeepSeek-V3.2: what was computed once survives a flush.

Needs the extra: pip install '.[transformers]'.
"""

import inspect
import sys

import torch
from transformers import DeepseekV32Config, DeepseekV32ForCausalLM, logging

from hicache_nsa.integrations.transformers import PrefixCache

logging.set_verbosity_error()
torch.manual_seed(0)
config = DeepseekV32Config(
    vocab_size=1000, hidden_size=64, intermediate_size=64, moe_intermediate_size=32,
    num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=4, q_lora_rank=32,
    kv_lora_rank=32, qk_rope_head_dim=16, qk_nope_head_dim=16, v_head_dim=16, n_routed_experts=4,
    num_experts_per_tok=2, n_group=1, topk_group=1, index_topk=64, index_n_heads=16,
    index_head_dim=32, max_position_embeddings=2048, initializer_range=0.3,
    bos_token_id=None, eos_token_id=None,
)  # fmt: skip
model = DeepseekV32ForCausalLM(config).eval()
# generate(past_key_values=...) is called generate(cache=...) in newer versions of transformers.
names = inspect.signature(model.forward).parameters
argument = "cache" if "cache" in names else "past_key_values"


def generate(prompt: torch.Tensor, **cache: PrefixCache) -> torch.Tensor:
    """The prompt and 32 tokens more, int64 [1, tokens]."""
    return model.generate(prompt, max_new_tokens=32, do_sample=False, **cache)


with PrefixCache(model, host_size="64MiB", page_size=16) as cache:
    prompt = answer = torch.randint(0, 1000, (1, 400))
    for step in ("cold", "again", "after a flush", "next turn"):
        if step == "after a flush":
            cache.reset()  # nothing on the device any more, the host copies stay
        if step == "next turn":
            prompt = torch.cat([answer, torch.randint(0, 1000, (1, 50))], dim=1)
        answer = generate(prompt, **{argument: cache})
        same = torch.equal(answer, generate(prompt))  # without any cache of ours
        use = cache.last_prompt
        print(
            f"{step:13}  {use.prompt_tokens} tokens: {use.device_hit_tokens} from the device, "
            f"{use.host_hit_tokens} from host, {use.computed_tokens} computed; "
            f"{'same' if same else 'OTHER'} answer"
        )
        if not same:
            sys.exit(1)
