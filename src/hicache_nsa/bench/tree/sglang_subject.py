"""SGLang's prefix trees behind what the cases need of one, on the CPU, with its own page allocator.

Nothing of SGLang is replaced. What its scheduler does around a call (keys and parameters made of
the tokens, page ids gathered from the matched nodes) is done beforehand or afterwards, and not
timed. Its matches name a node; ours return the page ids as well, in the time that is measured.
"""

from __future__ import annotations

from array import array
from contextlib import ExitStack
from typing import Any

import torch
from sglang.srt.mem_cache.allocator import PagedTokenToKVPoolAllocator
from sglang.srt.mem_cache.base_prefix_cache import EvictParams, InsertParams, MatchPrefixParams
from sglang.srt.mem_cache.cache_init_params import CacheInitParams
from sglang.srt.mem_cache.memory_pool import ReqToTokenPool
from sglang.srt.mem_cache.radix_cache import RadixCache, RadixKey
from sglang.srt.mem_cache.unified_cache.components import ComponentType
from sglang.srt.mem_cache.unified_radix_cache import UnifiedRadixCache
from sglang.srt.runtime_context import get_context, get_parallel

from hicache_nsa.bench.tree.settings import PAGE_SIZE
from hicache_nsa.errors import HiCacheError, require_equal
from hicache_nsa.tokens import PageIds

CORES = {"sglang-unified": "python", "sglang-rust": "rust"}


class SglangSubject:
    """``sglang-radix``: its plain radix cache; the others: its unified one over either core.

    Raises:
        HiCacheError: the core is not there, and SGLang took another one.
    """

    def __init__(self, name: str, pages: int) -> None:
        self._published = ExitStack()  # what a server publishes at start
        self._published.enter_context(get_context().override_server_args(page_size=PAGE_SIZE))
        self._published.enter_context(get_parallel().override(attn_dcp_size=1, attn_dcp_rank=0))
        self.pages = pages
        self.allocator = PagedTokenToKVPoolAllocator(
            pages * PAGE_SIZE, page_size=PAGE_SIZE, dtype=torch.bfloat16, device="cpu",
            kvcache=None, need_sort=False,
        )  # fmt: skip
        params = self._params(CORES.get(name))
        self.cache: Any = UnifiedRadixCache(params) if name in CORES else RadixCache(params)
        if name == "sglang-rust" and "Rust" not in type(self.cache.tree_core).__name__:
            self.close()
            raise HiCacheError(
                f"SGLang took {type(self.cache.tree_core).__name__} in place of its Rust core: "
                "install the wheel that has it, or a Rust toolchain"
            )
        self.match = self.cache.match_prefix
        self.insert = self.cache.insert

    def query(self, tokens: PageIds) -> tuple[Any, ...]:
        """Parameters with a key over an array of its own."""
        return (MatchPrefixParams(key=_key(tokens)),)

    def insertion(self, tokens: PageIds, matched: Any, new: Any) -> tuple[Any, ...]:
        """Parameters with a key of whole pages, and their slots."""
        key = _key(tokens).page_aligned(PAGE_SIZE)
        value = new.reshape(-1).clone()
        found = 0 if matched is None else self.matched_tokens(matched)
        if found:
            value = torch.cat([self.cache.path_device_indices(matched.last_device_node), value])
        return (InsertParams(key=key, value=value, prev_prefix_len=found, inserted_len=found),)

    def matched_tokens(self, result: Any) -> int:
        """Of the device."""
        return int(result.device_prefix_len)

    def allocate(self, pages: int) -> Any:
        """Slots, a row a page."""
        if pages == 0:
            return torch.empty((0, PAGE_SIZE), dtype=torch.int64)
        slots = self.allocator.alloc(pages * PAGE_SIZE)
        if slots is None:
            raise HiCacheError(f"SGLang's allocator has no {pages} pages left of {self.pages}")
        return slots.to(torch.int64).reshape(pages, PAGE_SIZE)

    def evict(self, pages: int) -> int:
        """Of the device."""
        result = self.cache.evict(EvictParams(num_tokens=pages * PAGE_SIZE))
        return int(result.num_tokens_evicted) // PAGE_SIZE

    def settle(self) -> None:
        """No tier below, no copies."""

    def check(self, cached_pages: int) -> None:
        """Its own check where it has one, and the counts."""
        if hasattr(self.cache, "sanity_check"):
            self.cache.sanity_check()
        cached = self.cache.evictable_size() + self.cache.protected_size()
        require_equal("cached tokens of SGLang", cached, cached_pages * PAGE_SIZE)
        free = (self.pages - cached_pages) * PAGE_SIZE
        require_equal("free tokens of SGLang", self.allocator.available_size(), free)

    def close(self) -> None:
        """Forget the tree, and what was published."""
        self.__dict__.pop("match", None)
        self.__dict__.pop("insert", None)
        self.cache = None
        self._published.close()

    def _params(self, core: str | None) -> CacheInitParams:
        requests = ReqToTokenPool(
            size=1, max_context_len=PAGE_SIZE, device="cpu", enable_memory_saver=False
        )
        more = {}
        if core is not None:
            more = {"tree_components": (ComponentType.FULL,), "tree_core_backend": core}
        return CacheInitParams(
            disable=False,
            req_to_token_pool=requests,
            token_to_kv_pool_allocator=self.allocator,
            page_size=PAGE_SIZE,
            **more,
        )


def _key(tokens: PageIds) -> RadixKey:
    """What a request's tokens are there: an array of 64-bit integers."""
    return RadixKey(array("q", tokens.tobytes()))
