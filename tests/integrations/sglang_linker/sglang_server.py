"""A server of the scenarios over SGLang's own unified radix cache, linker wrapper and allocator.

What its scheduler does around them is written out here in the same order: match, load back,
allocate, start, forward, finish, insert, poll. Requests are stand-ins with the fields that the
cache reads. Nothing of the cache, its tree cores, its pools or the wrapper is replaced.
"""

from __future__ import annotations

from array import array
from types import SimpleNamespace
from typing import Any

import torch
from page_mirror import Mirror
from served_request import Served, WrongBytes
from sglang.srt.mem_cache.allocator import PagedTokenToKVPoolAllocator
from sglang.srt.mem_cache.base_prefix_cache import (
    EvictParams,
    InitLoadBackParams,
    InsertParams,
    MatchPrefixParams,
)
from sglang.srt.mem_cache.cache_init_params import CacheInitParams
from sglang.srt.mem_cache.memory_pool import ReqToTokenPool
from sglang.srt.mem_cache.radix_cache import RadixKey
from sglang.srt.mem_cache.registry import TreeCacheBuildContext, create_tree_cache
from sglang.srt.mem_cache.unified_cache.components import ComponentType
from sglang.srt.mem_cache.unified_cache.linker_factory import create_unified_cache_linker
from sglang.srt.runtime_context import get_context

MODULE = "hicache_nsa.integrations.sglang"


def cache_params(pool: Any, core: str, **more: Any) -> CacheInitParams:
    """What SGLang's scheduler gives its radix cache, for one rank."""
    allocator = PagedTokenToKVPoolAllocator(
        pool.size, page_size=pool.page_size, dtype=pool.dtype, device=pool.device, kvcache=pool,
        need_sort=False,
    )  # fmt: skip
    requests = ReqToTokenPool(
        size=8, max_context_len=4096, device=pool.device, enable_memory_saver=False
    )
    return CacheInitParams(
        disable=False,
        req_to_token_pool=requests,
        token_to_kv_pool_allocator=allocator,
        page_size=pool.page_size,
        tree_components=(ComponentType.FULL,),
        tree_core_backend=core,
        **more,
    )


def linker_config(config: dict[str, Any]) -> dict[str, Any]:
    """The value of ``--unified-cache-external-linker-config``."""
    return {
        "linker": "HiCacheLinker",
        "linker_module_path": MODULE,
        "linker_extra_config": config,
    }


def make_linker(
    params: CacheInitParams,
    config: dict[str, Any],
    components: frozenset[Any] = frozenset({ComponentType.FULL}),
    **server_args: Any,
) -> Any:
    """A linker alone, through SGLang's factory and its checks."""
    return create_unified_cache_linker(
        SimpleNamespace(**server_args),
        params,
        backend="dynamic",
        config=linker_config(config),
        components=set(components),
        forward_stream=None,
    )


class Worker:
    """The two things that SGLang's registry wants of a worker."""

    def __init__(self) -> None:
        self.model_runner = SimpleNamespace(forward_stream=None)
        self.counter: Any = None

    def register_hicache_layer_transfer_counter(self, counter: Any) -> None:
        self.counter = counter


def make_cache(params: CacheInitParams, config: dict[str, Any], worker: Worker) -> Any:
    """The radix cache with its linker, as a server started with our flags makes it."""
    flags = get_context().override_server_args(
        page_size=params.page_size,
        enable_unified_cache_external_linker=True,
        unified_cache_external_linker_backend="dynamic",
        unified_cache_external_linker_config=linker_config(config),
    )
    with flags as server_args:
        return create_tree_cache(
            TreeCacheBuildContext(
                server_args=server_args,
                params=params,
                is_hybrid_swa=False,
                is_hybrid_ssm=False,
                enable_hierarchical_cache=False,
                disable_radix_cache=False,
                tp_worker=worker,
                model_config=None,
                tp_size=1,
                tp_rank=0,
                tp_group=None,
            )
        )


class SglangServer:
    """Serves requests with SGLang's cache; compares what the linker brought, layer by layer."""

    def __init__(
        self, pool: Any, mirror: Mirror, config: dict[str, Any], core: str, **params: Any
    ) -> None:
        self.pool = pool
        self.mirror = mirror
        self.page_size = pool.page_size
        self.params = cache_params(pool, core, **params)
        self.allocator = self.params.token_to_kv_pool_allocator
        self.worker = Worker()
        self.cache = make_cache(self.params, config, self.worker)
        self.linker = self.cache.linker.cache_linker
        self.results: list[bool] = []
        self._commit = self.cache.linker.commit_completed_offloads
        self.cache.linker.commit_completed_offloads = self._committed
        self.served = 0

    def _committed(self, successes: list[bool]) -> None:
        """What ranks have agreed on."""
        self.results += successes
        self._commit(successes)

    # ---- a request ----

    def serve(
        self, tokens: list[int], rid: str | None = None, extra_key: str | None = None
    ) -> Served:
        """Match, load, compute, insert and offload, as the scheduler does for one prompt."""
        request = self.match(tokens, rid, extra_key)
        lock = self.cache.inc_lock_ref(request.last_node).to_dec_params()
        locked = request.last_node
        loaded = self.load_back(request)
        slots = self.allocate(request, loaded)
        index = self.cache.ready_to_load_host_cache()
        assert (index >= 0) == (len(loaded) > 0)
        host = self.pages_of(loaded)
        device = len(request.prefix) // self.page_size
        tail = request.hashes
        wrong = self.forward(index, host, tail)
        new = self.pages_of(slots)
        for page, key in zip(new, tail[len(host) :], strict=True):
            self.mirror.write(page, key)
        failed = self.cache.finish_external_linker_loads([request])
        if failed:
            assert request.skip_radix_cache_insert
            self.allocator.free(torch.cat([loaded, slots]))
            self.mirror.poison(host)
            self.cache.dec_lock_ref(locked, lock)
            return Served(device, 0, 0, aborted=True)
        if wrong:
            raise WrongBytes(wrong[:5])
        self.insert(request.key, torch.cat([request.prefix, loaded, slots]), len(request.prefix))
        self.cache.dec_lock_ref(locked, lock)
        return Served(device, len(host), len(new))

    def match(self, tokens: list[int], rid: str | None = None, extra_key: str | None = None) -> Any:
        """The request, with its device prefix and what the linker has."""
        request = SimpleNamespace(
            rid=rid or f"request-{self.served}",
            kv=None,
            last_node=None,
            swa_branching_seqlen=None,
            swa_host_hit_length=0,
            mamba_host_hit_length=0,
            skip_radix_cache_insert=False,
            session=None,
            session_id=None,
        )
        self.served += 1
        request.key = key = RadixKey(array("q", tokens), extra_key)
        result = self.cache.match_prefix(MatchPrefixParams(key=key, req=request))
        request.last_node = result.last_device_node
        request.best = result.best_match_node
        request.host_hit_length = result.host_hit_length
        request.tokens = tokens
        request.prefix = self.cache.path_device_indices(request.last_node)
        before = len(request.prefix)
        request.hashes = self.cache.linker._tail_hashes(key, result, before)
        return request

    def load_back(self, request: Any) -> torch.Tensor:
        if not request.host_hit_length:
            return torch.empty(0, dtype=torch.int64)
        params = InitLoadBackParams(
            best_match_node=request.best, host_hit_length=request.host_hit_length, req=request
        )
        count, node = self.cache.init_load_back(params)
        assert (count, node) == (request.host_hit_length, request.last_node)
        return self.cache.linker.private_load_indices[request.rid]

    def allocate(self, request: Any, loaded: torch.Tensor) -> torch.Tensor:
        count = len(request.tokens) - len(request.prefix) - len(loaded)
        count = count // self.page_size * self.page_size
        short = count - self.allocator.available_size()
        if short > 0:
            self.settle()
            self.cache.evict(EvictParams(num_tokens=short))
        slots = self.allocator.alloc(count) if count else torch.empty(0, dtype=torch.int64)
        assert slots is not None
        return slots.to(torch.int64)

    def forward(self, index: int, loaded: list[int], tail: list[str]) -> list[str]:
        """Ask SGLang's pool for each layer, as attention does; where loaded bytes are wrong."""
        for page, key in zip(loaded, tail, strict=False):
            self.mirror.expect(page, key)
        self.worker.counter.set_consumer(index)
        wrong: list[str] = []
        for layer in range(self.pool.layer_num):
            self.pool.get_key_buffer(layer)  # waits for the layer
            wrong += self.mirror.wrong_bytes(loaded, [layer])
        return wrong

    def insert(self, whole: RadixKey, slots: torch.Tensor, protected: int) -> None:
        key = whole.page_aligned(self.page_size)
        value = slots[: len(key)].clone()
        self.cache.insert(InsertParams(key=key, value=value, prev_prefix_len=protected))

    def settle(self, rounds: int = 20_000) -> list[bool]:
        """SGLang's poll at each step of its scheduler, until no offload is pending."""
        first = len(self.results)
        for _ in range(rounds):
            self.cache.check_hicache_events()
            if not self.cache.linker.pending_offloads:
                return self.results[first:]
            self.linker.quiesce()
        raise AssertionError(f"{len(self.cache.linker.pending_offloads)} offloads never completed")

    # ---- the device ----

    def flush(self) -> None:
        """What the scheduler's ``flush_cache`` does to cache and pools."""
        self.cache.reset()
        self.params.req_to_token_pool.clear()
        self.allocator.clear()
        self.mirror.poison()

    def drop_device(self) -> None:
        """The radix cache evicts everything it can."""
        self.settle()
        self.cache.evict(EvictParams(num_tokens=self.pool.size))
        assert self.allocator.available_size() == self.pool.size
        self.mirror.poison()

    def check(self) -> None:
        self.mirror.check()
        self.linker.check()

    def close(self) -> None:
        self.cache.release_host_resources()

    def pages_of(self, slots: torch.Tensor) -> list[int]:
        return (slots[:: self.page_size] // self.page_size).tolist()
