"""SGLang's own radix cache, tree cores, wrapper and pools drive the linker. Skipped without SGLang.

``make test-sglang`` makes an environment with it. No GPU: its pools are built on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from linker_scenarios import SCENARIOS, warm_flush

pytest.importorskip("sglang.srt", reason="SGLang isn't installed; `make test-sglang` has it")

import torch
from sglang.srt.mem_cache.unified_cache.components import ComponentType
from sglang.srt.runtime_context import get_parallel
from sglang_pools import dsa_pool, mha_pool, mla_pool
from sglang_server import cache_params, make_linker

from hicache_nsa.errors import HiCacheError


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.__name__)
@pytest.mark.parametrize("core", ["python", "rust"])
def test_scenario(
    scenario: Callable[[Any], None], core: str, make_sglang_server: Callable[..., Any]
) -> None:
    server = make_sglang_server(core=core)
    kinds = {"python": "UnifiedTreeCore", "rust": "RustUnifiedTreeCore"}
    assert type(server.cache.tree_core).__name__ == kinds[core]
    scenario(server)


@pytest.mark.parametrize("layout", ["layer_first", "page_first", "page_first_direct"])
@pytest.mark.parametrize(
    ("pool", "buffers"),
    [
        (lambda: dsa_pool(skip_topk_layers=None), {"latent", "index_k"}),
        (lambda: dsa_pool(dtype=torch.bfloat16, kv_cache_dim=576), {"latent", "index_k"}),
        (mla_pool, {"latent"}),
        (mha_pool, {"k", "v"}),
        (lambda: mha_pool(v_head_dim=32), {"k", "v"}),
        (lambda: mha_pool(dtype=torch.float8_e4m3fn), {"k", "v"}),
    ],
    ids=["dsa", "dsa-bf16", "mla-16", "mha", "mha-v-32", "mha-fp8"],
)
def test_f01_every_byte_of_every_kind_of_pool(
    pool: Callable[[], Any],
    buffers: set[str],
    layout: str,
    make_sglang_server: Callable[..., Any],
) -> None:
    server = make_sglang_server(pool(), layout=layout)
    assert {b.name for b in server.linker.engine.device_pool.format.buffers} == buffers
    warm_flush(server)


def test_layers_that_share_top_k_have_no_bytes(make_sglang_server: Callable[..., Any]) -> None:
    fmt = make_sglang_server().linker.engine.device_pool.format
    assert fmt.buffer("index_k").layers == (0, 2)
    assert fmt.page_bytes == 4 * 656 * 64 + 2 * 8448


def test_a_request_that_is_aborted_before_its_load_starts(
    make_sglang_server: Callable[..., Any],
) -> None:
    """F37: the load is cancelled, its host pages are free to go, its slots the caller's."""
    server = make_sglang_server()
    tokens = list(range(4 * 64))
    server.serve(tokens)
    server.flush()
    request = server.match(tokens)
    loaded = server.load_back(request)
    assert server.linker.stats().host.pinned_pages == 4
    server.cache.linker.release_request(request.rid)
    assert server.linker.stats().host.pinned_pages == 0
    assert server.cache.ready_to_load_host_cache() == -1
    server.allocator.free(loaded)
    assert server.serve(tokens).host == 4
    server.settle()
    server.check()


@pytest.mark.parametrize("core", ["python", "rust"])
def test_sglang_survives_calls_after_close(
    core: str, make_sglang_server: Callable[..., Any]
) -> None:
    """A match is a miss; a load and an offload raise, and leave no slot and no lock behind."""
    server = make_sglang_server(core=core)
    tokens = list(range(4 * 64))
    server.serve(tokens)
    server.settle()
    server.flush()
    request = server.match(tokens)
    assert request.host_hit_length == len(tokens)
    server.close()
    free = server.allocator.available_size()
    with pytest.raises(HiCacheError, match="load after close"):
        server.load_back(request)
    assert server.allocator.available_size() == free
    assert server.cache.ready_to_load_host_cache() == -1
    late = server.match(tokens)
    assert late.host_hit_length == 0
    slots = server.allocate(late, torch.empty(0, dtype=torch.int64))
    with pytest.raises(HiCacheError, match="offload after close"):
        server.insert(late.key, slots, 0)
    server.cache.check_hicache_events()
    assert server.cache.protected_size() == 0


def test_rows_of_another_namespace_are_not_found(make_sglang_server: Callable[..., Any]) -> None:
    """F11: SGLang seeds its hashes with a request's namespace."""
    server = make_sglang_server()
    tokens = list(range(4 * 64))
    server.serve(tokens)
    server.flush()
    assert server.serve(tokens, extra_key="adapter").host == 0
    server.settle()
    server.flush()
    assert server.serve(tokens, extra_key="adapter").host == 4
    assert server.serve(tokens).host == 4


def test_the_factory_refuses_by_name(one_rank: None) -> None:
    """SGLang's factory passes our class, and our class what it does not support."""
    pool = mla_pool()
    params = cache_params(pool, "python")
    config = {"host_pages": 4, "workers": 1}
    with pytest.raises(ValueError, match="'spare' is no option of HiCacheLinker"):
        make_linker(params, {**config, "spare": 0.1})
    with pytest.raises(ValueError, match="exactly one of host_size and host_pages"):
        make_linker(params, {})
    with pytest.raises(ValueError, match="--disaggregation-mode decode"):
        make_linker(params, config, disaggregation_mode="decode")
    with pytest.raises(ValueError, match="--enable-memory-saver needs the hooks"):
        make_linker(params, config, enable_memory_saver=True)
    with pytest.raises(ValueError, match=r"pipeline parallelism \(pp_size=2\)"):
        make_linker(cache_params(pool, "python", pp_size=2), config)
    with pytest.raises(ValueError, match="SWA components; supported: FULL"):
        make_linker(params, config, {ComponentType.FULL, ComponentType.SWA})
    with get_parallel().override(attn_dcp_size=2), pytest.raises(ValueError, match="dcp_size=2"):
        make_linker(params, config)
    pool.__class__ = type("MLATokenToKVPoolFP4", (type(pool),), {})
    with pytest.raises(ValueError, match="MLATokenToKVPoolFP4 is not supported; supported: DSA"):
        make_linker(params, config)


def test_arguments_of_a_later_interface_are_no_error(one_rank: None) -> None:
    from hicache_nsa.integrations.sglang import HiCacheLinker

    linker = HiCacheLinker(
        None,
        cache_params(mla_pool(), "python"),
        components={ComponentType.FULL},
        extra_config={"host_pages": 4, "workers": 1},
        something_new=1,
    )
    assert linker.lookup("x", [], deadline=3) == []
    linker.close()
