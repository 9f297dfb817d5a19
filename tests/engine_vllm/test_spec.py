"""Spec, manager and worker in vLLM's own types, without an engine around them."""

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("vllm", reason="needs vLLM: make test-vllm")

import torch
from vllm.v1.kv_offload.base import (
    CanonicalKVCacheRef,
    CanonicalKVCaches,
    CanonicalKVCacheTensor,
    GPULoadStoreSpec,
    LookupResult,
    ReqContext,
    make_offload_key,
)
from vllm.v1.kv_offload.config import (
    OffloadingCacheConfig,
    OffloadingConfig,
    OffloadingGroupConfig,
    OffloadingModelConfig,
    OffloadingParallelConfig,
)

from hicache_nsa.errors import HiCacheError
from hicache_nsa.integrations.vllm import VLLM_VERSION, HiCacheOffloadingSpec

PAGE = 64
LATENT, INDEX = 41_984, 8_448
V32_PAGE = 61 * (LATENT + INDEX)


def config(options: dict[str, Any], page_bytes: int = V32_PAGE, **changes: Any) -> OffloadingConfig:
    group = OffloadingGroupConfig(PAGE, tuple(f"layer{i}" for i in range(122)), 0)
    parallel = {
        "rank": 0, "world_size": 8, "tp_size": 8, "pp_size": 1, "pcp_size": 1, "dcp_size": 1,
        "data_parallel_index": 0, "data_parallel_size": 1, "data_parallel_rank_local": None,
        "is_parallelism_agnostic": False,
    }  # fmt: skip
    parallel.update({name: changes.pop(name) for name in tuple(changes) if name in parallel})
    made = OffloadingConfig(
        groups=(group,),
        worker_kv_bytes_per_block=page_bytes,
        enable_kv_cache_events=changes.pop("events", False),
        extra_config={"spec_name": "HiCacheOffloadingSpec", **options},
        engine_id="engine",
        model=OffloadingModelConfig("deepseek-v3.2", "fp8_ds_mla"),
        cache=OffloadingCacheConfig(PAGE, changes.pop("blocks_per_chunk", 1)),
        parallel=OffloadingParallelConfig(**parallel),
    )
    return replace(made, **changes)


def v32_tensors(pages: int) -> CanonicalKVCaches:
    """122 tensors in one allocation, as vLLM makes them: a latent and an indexer a layer."""
    whole = torch.zeros(pages * V32_PAGE, dtype=torch.int8)
    tensors, start = [], 0
    for size in (LATENT, INDEX) * 61:
        part = whole[start : start + pages * size].view(pages, size)
        tensors.append(CanonicalKVCacheTensor(part, size))
        start += pages * size
    refs = [CanonicalKVCacheRef(i, t.page_size_bytes) for i, t in enumerate(tensors)]
    return CanonicalKVCaches(tensors, [refs])


def request(name: str, keys: list[Any]) -> ReqContext:
    context = ReqContext(req_id=name)
    for number, key in enumerate(keys, start=1):
        context.set_offload_key_position(key, number * PAGE)
    return context


def keys(name: str, count: int) -> list[Any]:
    return [make_offload_key(f"{name}{i}".encode().ljust(32, b"."), 0) for i in range(count)]


def blocks(ids: list[int], first: int = 0) -> GPULoadStoreSpec:
    return GPULoadStoreSpec(ids, group_sizes=[len(ids)], block_indices=[first])


# -- the spec ------------------------------------------------------------------------------------


def test_scheduler_and_workers_come_to_one_number_of_chunks() -> None:
    specs = [HiCacheOffloadingSpec(config({"host_size": "50GB"}, rank=rank)) for rank in range(8)]
    assert {spec.geometry.chunks for spec in specs} == {50 * 10**9 // V32_PAGE}
    assert not any(spec.replicated_layout for spec in specs)  # every rank writes its own pages


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"groups": (OffloadingGroupConfig(64, ("a",), 0), OffloadingGroupConfig(32, ("b",), 1))},
         "deepseek-v3.2 has 2 KV cache groups.*not supported; supported: models with all"),
        ({"pp_size": 2}, "pipeline_parallel_size=2 is not supported.*supported: 1"),
        ({"canonical_layout": True}, "canonical_layout is not supported"),
        ({"page_bytes": 0}, "no bytes of a block"),
    ],
)  # fmt: skip
def test_what_is_not_supported_says_so_at_start(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(HiCacheError, match=message):
        HiCacheOffloadingSpec(config({"host_size": "1GiB"}, **changes))


def test_an_unknown_option_says_so_at_start() -> None:
    with pytest.raises(ValueError, match="unknown option cpu_bytes_to_use; known: host_size"):
        HiCacheOffloadingSpec(config({"host_size": "1GiB", "cpu_bytes_to_use": 1}))


def test_an_option_of_a_later_vllm_says_so_at_start() -> None:
    options = config({"host_size": "1GiB", "sync_load_budget_bytes": 1 << 20})
    if VLLM_VERSION.startswith("0.32."):
        with pytest.raises(ValueError, match="unknown option sync_load_budget_bytes"):
            HiCacheOffloadingSpec(options)
    else:
        HiCacheOffloadingSpec(options)


def test_facts_of_the_tier_match_their_labels() -> None:
    spec = HiCacheOffloadingSpec(config({"host_pages": 10}))
    (facts,) = spec.get_manager().config_info()
    assert tuple(facts) == spec.config_info_keys({})
    assert (facts["chunks"], facts["page_bytes"], facts["layout"]) == (10, V32_PAGE, "page_first")


# -- the manager ---------------------------------------------------------------------------------


def manager(options: dict[str, Any], **changes: Any) -> Any:
    return HiCacheOffloadingSpec(config(options, **changes)).get_manager()


def store(manager: Any, chain: list[Any], context: ReqContext) -> list[Any]:
    prepared = manager.prepare_store(chain, context)
    manager.complete_store(set(prepared.keys_to_store), context)
    evicted: list[Any] = prepared.evicted_keys
    return evicted


def test_a_request_in_vllms_words() -> None:
    tier = manager({"host_pages": 4})
    chain = keys("a", 3)
    context = request("a", chain)
    assert tier.lookup(chain[0], context) is LookupResult.MISS
    prepared = tier.prepare_store(chain, context)
    assert prepared.keys_to_store == chain
    assert tier.lookup(chain[0], context) is LookupResult.HIT_PENDING
    tier.complete_store(set(chain), context)
    assert [tier.lookup(key, context) for key in chain] == [LookupResult.HIT] * 3
    loaded = tier.prepare_load(chain, context)
    assert loaded.chunks.tolist() == prepared.store_spec.chunks.tolist()
    tier.on_schedule_end(None)
    assert tier.prepare_store(keys("b", 2), request("b", keys("b", 2))) is None
    tier.complete_load(set(chain), context)
    assert store(tier, keys("b", 2), request("b", keys("b", 2))) == [chain[2]]
    tier.reset_cache()
    assert tier.lookup(chain[0], context) is LookupResult.MISS


def test_what_follows_a_load_goes_below_it() -> None:
    tier = manager({"host_pages": 4})
    chain = keys("a", 4)
    store(tier, chain[:2], request("a", chain))
    later = request("later", chain)
    tier.prepare_load(chain[:2], later)
    store(tier, chain[2:], later)
    tier.complete_load(set(chain[:2]), later)
    tier.touch(chain[2:], later)  # used last, and first to go: nothing is left below it
    assert store(tier, keys("b", 1), request("b", keys("b", 1))) == [chain[3]]


def test_a_request_that_begins_anew_after_a_preemption() -> None:
    tier = manager({"host_pages": 8})
    chain = keys("a", 4)
    context = request("a", chain)
    store(tier, chain[:2], context), store(tier, chain[2:], context)
    assert tier.prepare_store(chain, context).keys_to_store == []


class Router:
    """Believes what the events of ``tier`` say; refuses one that repeats what it knows."""

    def __init__(self, tier: Any) -> None:
        self.tier = tier
        self.on_host: set[Any] = set()

    def listen(self) -> set[Any]:
        for event in self.tier.take_events():
            changed = set(event.keys)
            assert len(changed) == len(event.keys)
            if event.removed:
                assert changed <= self.on_host
                self.on_host -= changed
            else:
                assert changed.isdisjoint(self.on_host)
                self.on_host |= changed
        return self.on_host


def hits(tier: Any, everything: list[Any]) -> set[Any]:
    context = request("router", everything)
    found = {key for key in everything if tier.lookup(key, context) is LookupResult.HIT}
    tier.on_schedule_end(None)
    return found


def test_f50_events_tell_what_is_on_host() -> None:
    tier = manager({"host_pages": 3}, events=True)
    router = Router(tier)
    everything = [key for name in "abcd" for key in keys(name, 2)]
    for name in "abcd":
        chain = keys(name, 2)
        prepared = tier.prepare_store(chain, request(name, chain))
        tier.complete_store(set(chain), request(name, chain), success=name != "c")
        assert router.listen() == hits(tier, everything)
        assert set(prepared.evicted_keys).isdisjoint(router.on_host)
    assert list(tier.take_events()) == []


@pytest.mark.parametrize("heard", [True, False])
def test_f50_after_a_reset_no_router_believes_in_what_is_gone(heard: bool) -> None:
    tier = manager({"host_pages": 4}, events=True)
    router = Router(tier)
    chain = keys("a", 4)
    context = request("a", chain)
    store(tier, chain[:2], context)
    if heard:
        assert router.listen() == set(chain[:2])
    tier.prepare_store(chain[2:], context)  # in flight: nobody has heard of it, nor ever will
    tier.reset_cache()
    assert router.listen() == set() == hits(tier, chain)
    store(tier, chain[:1], request("b", chain))
    assert router.listen() == {chain[0]} == hits(tier, chain)


def test_f50_a_parent_is_announced_before_its_children() -> None:
    tier = manager({"host_pages": 32}, events=True)
    chain = keys("a", 16)
    context = request("a", chain)
    first, second = chain[:8], chain[8:]
    for part in (first, second):
        assert tier.prepare_store(part, context).keys_to_store == part
    for part in (first, second):
        tier.complete_store(set(part), context)  # as vLLM does
    assert [key for event in tier.take_events() for key in event.keys] == chain


def test_no_events_unless_they_are_asked_for() -> None:
    tier = manager({"host_pages": 3})
    store(tier, keys("a", 3), request("a", keys("a", 3)))
    assert list(tier.take_events()) == []


def test_statistics_are_those_that_were_declared() -> None:
    tier = manager({"host_pages": 4})
    chain = keys("a", 3)
    store(tier, chain, request("a", chain))
    tier.prepare_load(chain[:1], request("a", chain))
    stats = tier.get_stats().reduce()
    assert stats == {
        "vllm:hicache_host_chunks_stored": 3,
        **{f"vllm:hicache_host_chunks_{name}": 0 for name in ("loaded", "evicted", "refused")},
        "vllm:hicache_host_usage_perc": 0.75,
        "vllm:hicache_host_pinned_perc": 0.25,
        "vllm:hicache_host_pending_perc": 0.0,
    }
    assert set(stats) <= set(HiCacheOffloadingSpec.build_metric_definitions({}))
    assert "vllm:hicache_host_chunks_stored" not in tier.get_stats().reduce()


# -- the worker ----------------------------------------------------------------------------------


def settle(worker: Any, *jobs: int) -> list[int]:
    worker.wait(set(jobs))
    return sorted(result.job_id for result in worker.get_finished() if result.success)


@pytest.mark.parametrize("layout", ["page_first", "layer_first"])
def test_f01_v32_pages_come_back_with_all_122_tensors(layout: str) -> None:
    spec = HiCacheOffloadingSpec(config({"host_pages": 6, "layout": layout}))
    tier, caches = spec.get_manager(), v32_tensors(5)
    worker = spec.get_worker(caches)
    assert worker.host_pool.nbytes == 6 * V32_PAGE
    rng = torch.Generator().manual_seed(3)
    for cache in caches.tensors:
        cache.tensor.random_(-128, 127, generator=rng)
    before = [cache.tensor.clone() for cache in caches.tensors]
    chain = keys("a", 2)
    context = request("a", chain)
    prepared = pickle.loads(pickle.dumps(tier.prepare_store(chain, context)))
    worker.submit_store(1, blocks([3, 1]), prepared.store_spec)
    assert settle(worker, 1) == [1]
    tier.complete_store(set(chain), context)
    for cache in caches.tensors:
        cache.tensor.fill_(-18)
    loads = pickle.loads(pickle.dumps(tier.prepare_load(chain, context)))
    worker.submit_load(2, loads, blocks([0, 2]), expedited=True)
    assert settle(worker, 2) == [2]
    for cache, old in zip(caches.tensors, before, strict=True):
        assert torch.equal(cache.tensor[[0, 2]], old[[3, 1]])
        assert (cache.tensor[[1, 3, 4]] == -18).all()
    worker.shutdown()
    worker.shutdown()


def test_a_packed_tensor_is_one_buffer() -> None:
    packed = torch.arange(4 * 96, dtype=torch.int16).to(torch.int8).view(4, 96)
    caches = CanonicalKVCaches([CanonicalKVCacheTensor(packed, 96)], [[CanonicalKVCacheRef(0, 96)]])
    spec = HiCacheOffloadingSpec(config({"host_pages": 4}, page_bytes=96))
    worker, before = spec.get_worker(caches), packed.clone()
    prepared = spec.get_manager().prepare_store(keys("a", 1), request("a", keys("a", 1)))
    worker.submit_store(1, blocks([2]), prepared.store_spec)
    worker.wait({1})
    packed[2] = 0
    worker.submit_load(2, prepared.store_spec, blocks([2]))
    assert settle(worker, 2) == [1, 2]
    assert torch.equal(packed, before)


def test_a_load_that_begins_inside_a_chunk() -> None:
    pages = torch.arange(12, dtype=torch.int8).repeat_interleave(32).view(12, 32)
    caches = CanonicalKVCaches([CanonicalKVCacheTensor(pages, 32)], [[CanonicalKVCacheRef(0, 32)]])
    spec = HiCacheOffloadingSpec(config({"host_pages": 12}, page_bytes=32, blocks_per_chunk=3))
    assert spec.geometry.chunks == 4
    worker = spec.get_worker(caches)
    prepared = spec.get_manager().prepare_store(keys("a", 2), request("a", keys("a", 2)))
    worker.submit_store(1, blocks([0, 1, 2, 3, 4, 5]), prepared.store_spec)
    worker.wait({1})
    worker.submit_load(2, prepared.store_spec, blocks([11, 10, 9, 8], first=2))
    assert settle(worker, 2) == [1, 2]
    assert pages[:, 0].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 5, 4, 3, 2]


def test_tensors_larger_than_the_scheduler_counts_with_are_refused() -> None:
    spec = HiCacheOffloadingSpec(config({"host_size": "16MiB"}, page_bytes=V32_PAGE - 1))
    with pytest.raises(HiCacheError, match=f"take {V32_PAGE} bytes a block, vLLM told .*host_page"):
        spec.get_worker(v32_tensors(2))


def test_a_device_without_a_backend_says_so() -> None:
    tensor = torch.zeros((2, 32), dtype=torch.int8, device="meta")
    caches = CanonicalKVCaches([CanonicalKVCacheTensor(tensor, 32)], [[CanonicalKVCacheRef(0, 32)]])
    spec = HiCacheOffloadingSpec(config({"host_pages": 2}, page_bytes=32))
    with pytest.raises(ValueError, match="device='meta' is unknown; known: cpu, cuda"):
        spec.get_worker(caches)


def test_chunks_are_numbers_of_64_bits() -> None:
    prepared = manager({"host_pages": 4}).prepare_store(keys("a", 1), request("a", keys("a", 1)))
    assert prepared.store_spec.chunks.dtype == np.int64
