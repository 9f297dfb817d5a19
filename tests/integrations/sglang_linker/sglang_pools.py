"""SGLang's own KV pools, small, on the CPU. Inside ``one_rank`` of the fixtures."""

from __future__ import annotations

from typing import Any

import torch
from kv_pools import DEVICE_PAGES
from sglang.srt.mem_cache.memory_pool import DSATokenToKVPool, MHATokenToKVPool, MLATokenToKVPool


def dsa_pool(**more: Any) -> DSATokenToKVPool:
    """DeepSeek-V3.2's pool with fp8 rows, 4 layers, two of them sharing another one's top-k."""
    options = {
        "size": DEVICE_PAGES * 64,
        "page_size": 64,
        "kv_lora_rank": 512,
        "dtype": torch.float8_e4m3fn,
        "qk_rope_head_dim": 64,
        "layer_num": 4,
        "device": "cpu",
        "index_head_dim": 128,
        "enable_memory_saver": False,
        "kv_cache_dim": 656,
        "skip_topk_layers": [False, True, False, True],
        **more,
    }
    return DSATokenToKVPool(**options)


def mla_pool(**more: Any) -> MLATokenToKVPool:
    options = {
        "size": DEVICE_PAGES * 16,
        "page_size": 16,
        "dtype": torch.bfloat16,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "layer_num": 3,
        "device": "cpu",
        "enable_memory_saver": False,
        **more,
    }
    return MLATokenToKVPool(**options)


def mha_pool(**more: Any) -> MHATokenToKVPool:
    options = {
        "size": DEVICE_PAGES * 64,
        "page_size": 64,
        "dtype": torch.bfloat16,
        "head_num": 2,
        "head_dim": 64,
        "layer_num": 3,
        "device": "cpu",
        "enable_memory_saver": False,
        **more,
    }
    return MHATokenToKVPool(**options)
