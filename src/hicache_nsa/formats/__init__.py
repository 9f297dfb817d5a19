"""What a page holds: which buffers, how many bytes, in which layers.

>>> from hicache_nsa import formats
>>> formats.dsa(num_layers=61).page_bytes        # DeepSeek-V3.2, fp8_ds_mla rows, 64 tokens a page
3076352
"""

from hicache_nsa.formats.builders import dsa, mha, mla
from hicache_nsa.formats.hf import from_hf_config
from hicache_nsa.formats.pool_format import BufferFormat, PoolFormat

__all__ = ["BufferFormat", "PoolFormat", "dsa", "from_hf_config", "mha", "mla"]
