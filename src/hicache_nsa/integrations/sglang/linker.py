"""``HiCacheLinker``: the class that SGLang's ``dynamic`` linker backend is given."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from sglang.srt.mem_cache.hicache_storage import PoolName
from sglang.srt.mem_cache.unified_cache.unified_cache_linker import UnifiedCacheLinker

from hicache_nsa.integrations.linking.configuration import (
    check_components,
    check_parallelism,
    check_server,
    draft_pools,
)
from hicache_nsa.integrations.linking.core import KV, LinkerCore
from hicache_nsa.integrations.linking.device_buffers import device_buffers
from hicache_nsa.integrations.linking.options import linker_options
from hicache_nsa.integrations.sglang import hooks
from hicache_nsa.integrations.sglang.installed import warn_untested
from hicache_nsa.sizes import format_size

log = logging.getLogger("hicache_nsa.sglang")


class HiCacheLinker(LinkerCore, UnifiedCacheLinker):
    """Host memory behind SGLang's radix cache: prefixes that left the device come back from there.

    extra_config: the options, see ``options.LinkerOptions``.

    Raises:
        ValueError, TypeError: an option, model or configuration that isn't supported, by name, with
            what is; before memory is made.
        HiCacheError: the host pool does not fit the machine.
    """

    # The base class's: the two events an offload waits for.
    record_offload_ready = UnifiedCacheLinker.record_offload_ready

    def __init__(
        self,
        server_args: Any,
        params: Any,
        *,
        components: Any = (),
        extra_config: Mapping[str, Any] | None = None,
        forward_stream: Any = None,
        **_: Any,
    ) -> None:
        options = linker_options(extra_config)
        warn_untested()
        missing = hooks.missing_hooks()
        check_components(components)
        check_parallelism(params, _dcp_size())
        keep = _keeps(options.keep_on_flush, missing)
        if not hooks.match_is_hooked():
            log.warning(
                "the hook on the linker's match is not installed: host pages of a prefix that "
                "stays on the device may go before what is stored below them"
            )
        check_server(server_args, hooked=not missing)
        kvcache = params.token_to_kv_pool_allocator.get_kvcache()
        buffers = device_buffers(kvcache, params.page_size, draft_pools(params))
        self.forward_stream = forward_stream
        self.open(buffers, options, keep)
        self.pools = {PoolName.KV: self.pools[KV]}
        if any("index_k" in name for name in buffers.tensors):
            self.pools[PoolName.INDEXER] = self.pools[PoolName.KV]
        log.info(
            "HiCacheLinker: %s, %d device pages and %d host pages of %s (%s), %s, %s",
            buffers.format.fingerprint,
            buffers.pages - 1,
            self.host_pool.num_pages,
            format_size(buffers.format.page_bytes),
            format_size(self.host_pool.nbytes),
            options.layout,
            options.io_backend,
        )


def _dcp_size() -> int:
    """Ranks that share out a request's tokens while decoding; 1 where SGLang has no such thing."""
    try:
        from sglang.srt.runtime_context import get_parallel
    except ImportError:
        return 1
    return int(getattr(get_parallel(), "attn_dcp_size", 1) or 1)


def _keeps(option: bool | str, missing: list[str]) -> bool:
    """Whether a flush keeps host pages; says which, and why."""
    if not missing:
        keeps = option is not False
        log.info("hooks on weight updates are installed; a flush %s host pages", _verb(keeps))
        return keeps
    keeps = option is True
    log.warning(
        "the hooks on weight updates are not installed (without: %s): SGLang's flush looks the "
        "same with and without new weights, so that a flush %s host pages. The hooks are the entry "
        "point 'hicache_nsa' of the group sglang.srt.plugins: install hicache-nsa as a package, "
        "and name it in SGLANG_PLUGINS if that is set.%s",
        ", ".join(missing),
        _verb(keeps),
        " keep_on_flush is true: new weights need invalidate_all()."
        if keeps
        else ' "keep_on_flush": true keeps them, if the weights never change.',
    )
    return keeps


def _verb(keeps: bool) -> str:
    return "keeps" if keeps else "drops"
