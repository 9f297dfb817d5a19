"""A small DSA model in torch, with paged pools in the byte formats of inference engines.

Real in every part (latent attention, indexer, top-k, RoPE, mixture of experts) and checked
against transformers; made to show and test that a KV cache brings back the right bytes.

    config = DsaConfig.demo(vocab_size=256)
    model = ReferenceModel(config, random_weights(config, seed=0))
    pools = allocate_pools(config, num_pages=32)
    logits = model.prefill(tokens, page_table, pools)
    answer = model.decode_greedy(logits, len(tokens), 16, page_table, pools)
"""

from .codec import IndexCodec, LatentCodec, index_codec, latent_codec
from .config import DsaConfig, MoeConfig
from .hf_config import config_from_hf
from .hf_weights import weights_from_hf
from .loading import from_transformers
from .model import ReferenceModel
from .pools import Pools, allocate_pools, pool_shapes
from .random_weights import random_weights
from .rope import Rope, YarnScaling
from .weights import ModelWeights

__all__ = [
    "DsaConfig",
    "IndexCodec",
    "LatentCodec",
    "ModelWeights",
    "MoeConfig",
    "Pools",
    "ReferenceModel",
    "Rope",
    "YarnScaling",
    "allocate_pools",
    "config_from_hf",
    "from_transformers",
    "index_codec",
    "latent_codec",
    "pool_shapes",
    "random_weights",
    "weights_from_hf",
]
