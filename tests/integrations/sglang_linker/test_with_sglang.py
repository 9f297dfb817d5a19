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
from sglang_pools import dsa_pool, mha_pool, mla_pool


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
