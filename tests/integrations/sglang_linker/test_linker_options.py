"""Options, pools and configurations that are refused, by name, before memory is made."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from kv_pools import DEVICE_PAGES, PAGE, DSATokenToKVPool, MHATokenToKVPool, MLATokenToKVPool

from hicache_nsa.integrations.linking.configuration import (
    check_components,
    check_parallelism,
    check_server,
)
from hicache_nsa.integrations.linking.device_buffers import device_buffers
from hicache_nsa.integrations.linking.options import NAMES, LinkerOptions, linker_options


def test_defaults_and_sizes() -> None:
    assert linker_options({"host_size": "50GB"}) == LinkerOptions(50_000_000_000, None)
    every = {
        "host_pages": 10,
        "layout": "layer_first",
        "io_backend": "kernel",
        "write_policy": "write_through",
        "eviction_policy": "slru",
        "load_back_threshold": 256,
        "pin_memory": False,
        "keep_on_flush": True,
        "lease_seconds": 2,
        "workers": 3,
        "kernel_blocks": 8,
        "staging_bytes": "16MiB",
        "pin_chunk_bytes": 1 << 30,
        "verify": "all",
        "time_waits": False,
    }
    memory = {
        "prefault": False,
        "memory_limit": "64GiB",
        "memory_reserve": 0,
        "local_ranks": 8,
        "huge_pages": "off",
        "numa": 0,
        "prepare_first": 4096,
        "prepare_step": 8192,
        "prepare_threads": 2,
    }
    every |= memory
    assert set(every) | {"host_size"} == set(NAMES)
    options = linker_options(every)
    assert (options.host_pages, options.layout, options.lease_seconds) == (10, "layer_first", 2.0)
    assert options.memory == memory
    assert options.engine == {
        "workers": 3,
        "kernel_blocks": 8,
        "staging_bytes": 16 << 20,
        "pin_chunk_bytes": 1 << 30,
        "verify": "all",
        "time_waits": False,
    }


@pytest.mark.parametrize(
    ("config", "error", "says"),
    [
        (None, ValueError, "exactly one of host_size and host_pages"),
        ({"host_size": "1GB", "host_pages": 3}, ValueError, "exactly one"),
        ({"host_size": "1GB", "hostsize": 1}, ValueError, "'hostsize' is unknown; the options are"),
        ({"host_size": "1GB", "spare": 0.1}, ValueError, "'spare' is no option of HiCacheLinker"),
        ({"host_size": "1GB", "acks": "poll"}, ValueError, "SGLang takes in finished copies"),
        ({"host_size": "50 pounds"}, ValueError, "is not a size"),
        ({"host_pages": 1, "local_ranks": 0}, ValueError, "local_ranks=0 must be 1 or more"),
        ({"host_pages": 0}, ValueError, "host_pages=0 must be 1 or more"),
        ({"host_size": "1GB", "layout": "hnd"}, ValueError, "layout='hnd' is unknown; known"),
        ({"host_size": "1GB", "io_backend": "rdma"}, ValueError, "io_backend='rdma' is unknown"),
        ({"host_size": "1GB", "eviction_policy": "arc"}, ValueError, "known: lru"),
        ({"host_size": "1GB", "write_policy": "write_back"}, ValueError, "known: write_through"),
        ({"host_size": "1GB", "keep_on_flush": "yes"}, ValueError, "known: 'auto', true, false"),
        ({"host_size": "1GB", "keep_on_flush": 1}, ValueError, "known: 'auto', true, false"),
        ({"host_size": "1GB", "lease_seconds": 0}, ValueError, "must be above 0"),
        ({"host_size": "1GB", "lease_seconds": "5s"}, TypeError, "must be a number"),
        ({"host_size": "1GB", "pin_memory": "maybe"}, ValueError, "pin_memory='maybe'"),
        ({"host_size": "1GB", "workers": -1}, ValueError, "workers=-1"),
    ],
)
def test_bad_options(config: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        linker_options(config)


class HiSparseDSATokenToKVPool(DSATokenToKVPool):
    """A pool that derives from a known one and keeps its bytes elsewhere."""


def with_attribute(pool: Any, name: str, value: Any) -> Any:
    setattr(pool, name, value)
    return pool


@pytest.mark.parametrize(
    ("pool", "says"),
    [
        (lambda: HiSparseDSATokenToKVPool(4), "HiSparseDSATokenToKVPool is not supported; supp"),
        (lambda: MLATokenToKVPool(4, page_size=32), "pages of 32 tokens, the radix cache of 64"),
        (lambda: with_attribute(MHATokenToKVPool(4), "kv_cache_layout", "hnd"), "layout 'hnd'"),
        (lambda: with_attribute(MHATokenToKVPool(4), "k_scale_buffer", []), "scales of a quant"),
        (lambda: with_attribute(DSATokenToKVPool(4), "layer_shard_enabled", True), "shared out"),
        (lambda: with_attribute(DSATokenToKVPool(4), "kpool_use_compress", True), "a tail a req"),
        (lambda: DSATokenToKVPool(4, 2, sharing=(0, 1)), "no layer of this rank owns 'index_k'"),
        (lambda: MLATokenToKVPool(4, 0), "no layers on this rank"),
    ],
)
def test_pools_that_are_refused(pool: Callable[[], Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        device_buffers(pool(), PAGE)


def test_f01_the_format_is_what_the_tensors_are() -> None:
    fmt = device_buffers(DSATokenToKVPool(DEVICE_PAGES, 61), PAGE).format
    assert (fmt.token_bytes, fmt.page_bytes) == (48_068, 3_076_352)  # DeepSeek-V3.2, fp8
    shared = device_buffers(DSATokenToKVPool(DEVICE_PAGES, 4, sharing=(1, 3)), PAGE)
    assert shared.format.buffer("index_k").layers == (0, 2)
    assert shared.pages == DEVICE_PAGES + 1
    assert [len(tensors) for tensors in shared.tensors.values()] == [4, 2]


def test_rows_that_are_no_whole_pages_are_left_out() -> None:
    pool = MLATokenToKVPool(4)
    pool.kv_buffer = [torch.zeros(5 * PAGE + 7, 1, 576, dtype=torch.bfloat16) for _ in range(2)]
    found = device_buffers(pool, PAGE)
    assert (found.pages, found.tensors["latent"][0].shape[0]) == (5, 5 * PAGE)


def test_f09_drafts_that_do_not_share_slots_are_refused() -> None:
    target = DSATokenToKVPool(8, 2)
    with pytest.raises(ValueError, match=r"draft pool 0 .* has 5 pages of 'latent'.*pool 9"):
        device_buffers(target, PAGE, [MLATokenToKVPool(4, 1)])
    with pytest.raises(ValueError, match="the draft model has 3 layers or more, the target 2"):
        device_buffers(target, PAGE, [MLATokenToKVPool(8, 3)])
    with pytest.raises(ValueError, match="HiSparseDSATokenToKVPool is not supported"):
        device_buffers(target, PAGE, [HiSparseDSATokenToKVPool(8, 1)])


def test_configurations_that_are_refused() -> None:
    check_components([SimpleNamespace(name="FULL")])
    check_parallelism(SimpleNamespace(pp_size=1), 1)
    check_server(SimpleNamespace(disaggregation_mode="prefill"), hooked=False)
    with pytest.raises(ValueError, match="MAMBA, SWA components; supported: FULL"):
        check_components([SimpleNamespace(name=n) for n in ("FULL", "SWA", "MAMBA")])
    with pytest.raises(ValueError, match=r"pipeline parallelism \(pp_size=2\)"):
        check_parallelism(SimpleNamespace(pp_size=2), 1)
    with pytest.raises(ValueError, match="attn_dcp_size=4"):
        check_parallelism(SimpleNamespace(pp_size=1), 4)
    with pytest.raises(ValueError, match="--disaggregation-mode decode"):
        check_server(SimpleNamespace(disaggregation_mode="decode"), hooked=True)
    with pytest.raises(ValueError, match="enable-linker-mla-dedup"):
        check_server(SimpleNamespace(enable_linker_mla_dedup=True), hooked=True)
    with pytest.raises(ValueError, match="--enable-memory-saver needs the hooks"):
        check_server(SimpleNamespace(enable_memory_saver=True), hooked=False)
    check_server(SimpleNamespace(enable_memory_saver=True), hooked=True)


def test_a_refused_engine_option_leaves_no_linker(make_server: Callable[..., Any]) -> None:
    from hicache_nsa.integrations.linking import live

    before = len(live.linkers())
    with pytest.raises(ValueError, match="one page of 'sglang/dsa' takes"):
        make_server(host_pages=None, host_size=1000)
    assert len(live.linkers()) == before
