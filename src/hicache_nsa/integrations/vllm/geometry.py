"""How large the host tier is: the same in the scheduler and in every worker, from one config."""

from __future__ import annotations

from typing import Any, NamedTuple

from hicache_nsa.errors import HiCacheError
from hicache_nsa.integrations.offloading.options import OffloadingOptions


class Geometry(NamedTuple):
    """page_size: tokens of one of vLLM's blocks; page_bytes: its bytes on one worker."""

    model: str
    page_size: int
    page_bytes: int
    pages_per_chunk: int
    chunks: int
    rank: int


def geometry_of(config: Any, options: OffloadingOptions) -> Geometry:
    """What ``config`` (vLLM's ``OffloadingConfig``) and the options come to.

    Raises:
        HiCacheError: a model or a way of running it that is not supported, by name.
    """
    require_supported(config)
    group = config.groups[0]
    page_bytes = config.worker_kv_bytes_per_block
    pages_per_chunk = config.cache.blocks_per_chunk
    return Geometry(
        model=config.model.name,
        page_size=group.tokens_per_block,
        page_bytes=page_bytes,
        pages_per_chunk=pages_per_chunk,
        chunks=options.chunks(page_bytes, pages_per_chunk),
        rank=config.parallel.rank,
    )


def require_supported(config: Any) -> None:
    """``HiCacheError`` that names what is not supported, and what is."""
    model = config.model.name
    if len(config.groups) != 1:
        groups = "; ".join(
            f"{len(group.layer_names)} layers of {group.tokens_per_block} tokens a block"
            for group in config.groups
        )
        raise HiCacheError(
            f"{model} has {len(config.groups)} KV cache groups ({groups}): hybrid models are not "
            f"supported; supported: models with all their KV in one group, such as DeepSeek-V3.2 "
            f"and other MLA, and plain multi-head or grouped-query attention"
        )
    if config.parallel.pp_size != 1:
        raise HiCacheError(
            f"pipeline_parallel_size={config.parallel.pp_size} is not supported: ranks with other "
            f"layers would count other pages; supported: 1, with any tensor or data parallel size"
        )
    if config.canonical_layout:
        raise HiCacheError(
            "canonical_layout is not supported: every worker keeps its own bytes; leave it out"
        )
    if config.worker_kv_bytes_per_block <= 0:
        raise HiCacheError(
            f"vLLM gives no bytes of a block for {model} "
            f"(worker_kv_bytes_per_block={config.worker_kv_bytes_per_block}); this way of caching "
            f"is not supported"
        )
