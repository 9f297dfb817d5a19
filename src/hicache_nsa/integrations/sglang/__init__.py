"""SGLang: ``HiCacheLinker``, an external linker for its unified radix cache.

    --enable-unified-cache-external-linker --unified-cache-external-linker-backend dynamic
    --unified-cache-external-linker-config '{"linker": "HiCacheLinker", "linker_module_path":
      "hicache_nsa.integrations.sglang", "linker_extra_config": {"host_size": "50GB"}}'

docs/integrations/sglang.md has the whole command line. ``invalidate_all`` is what a server calls
that changes the model's weights past SGLang's own calls.

The class is imported at its first use: SGLang imports this package in every process for the hooks
of ``hooks``, long before it has imported the parts that the class needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hicache_nsa.integrations.linking.live import invalidate_all
from hicache_nsa.integrations.sglang.installed import require_sglang, without_linkers

if TYPE_CHECKING:
    from hicache_nsa.integrations.sglang.linker import HiCacheLinker

__all__ = ["HiCacheLinker", "invalidate_all"]

require_sglang()


def __getattr__(name: str) -> Any:
    if name != "HiCacheLinker":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from hicache_nsa.integrations.sglang.linker import HiCacheLinker
    except ImportError as error:
        raise without_linkers(error) from error
    return HiCacheLinker
