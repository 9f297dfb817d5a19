"""A Llama of four layers with seeded random weights, saved as vLLM loads models.

initializer_range is 0.3: with small (or vLLM's dummy) weights all logits are nearly the same, and
wrong KV would not be seen.
"""

from pathlib import Path

VOCABULARY = 2048
LONGEST = 1024


def save_small_llama(folder: Path) -> Path:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(7)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=LONGEST,
        initializer_range=0.3,
        tie_word_embeddings=False,
    )
    LlamaForCausalLM(config).to(torch.float32).save_pretrained(folder)
    return folder
