"""``PrefixCache``: reuse prefixes across ``generate()`` calls of transformers models."""

from hicache_nsa.integrations.transformers import installed as installed  # says what is missing
from hicache_nsa.integrations.transformers.prefix_cache import PrefixCache, PromptUse

__all__ = ["PrefixCache", "PromptUse"]
