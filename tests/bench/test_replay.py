"""The replay of a trace: the cache's own figures, its pages, its determinism; broken traces."""

from __future__ import annotations

import json
import os
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from hicache_nsa.bench import replay as module
from hicache_nsa.bench.replay import Copied, copy_runs, host_runs, read_mooncake, replay
from hicache_nsa.errors import InvariantError
from hicache_nsa.histogram import Histogram
from hicache_nsa.stats import CacheStats, Counters
from hicache_nsa.traces import TraceError

SHARED = Path(os.environ.get("HICACHE_SHARED") or Path(__file__).parents[3] / "shared")
NO_AGES = Histogram((1.0,))
TRACE = SHARED / "data" / "mooncake_fast25_conversation_trace.jsonl"


def conversations(count: int, turns: int, seed: int = 3) -> list[np.ndarray]:
    """Prompts that grow turn by turn, the conversations in a shuffled order."""
    rng = np.random.default_rng(seed)
    texts = [rng.integers(0, 1000, 64 * 3 + 5) for _ in range(count)]
    prompts = []
    for _ in range(turns):
        for index in rng.permutation(count):
            more = rng.integers(0, 1000, int(rng.integers(30, 400)))
            texts[index] = np.concatenate([texts[index], more])
            prompts.append(texts[index])
    return prompts


def whole_pages(prompts: list[np.ndarray]) -> int:
    return sum(len(prompt) // 64 for prompt in prompts)


def test_its_copies_are_those_that_the_cache_counts() -> None:
    prompts = conversations(30, 4)
    done = replay(prompts, device_pages=60, host_pages=300)
    stats = done.stats
    assert done.requests == 120 and done.prompt_tokens == sum(map(len, prompts))
    assert sum(len(load.host_pages) for load in done.loads) * 64 == stats.load_back_tokens > 0
    assert sum(len(save.host_pages) for save in done.saves) * 64 == stats.saved_tokens > 0
    assert stats.evicted_host_tokens > 0 and stats.host.free_pages == 0  # the pool went full
    for copy in (*done.loads, *done.saves):
        assert len(copy.host_pages) == len(copy.device_pages) > 0
        assert copy.host_pages.dtype == copy.device_pages.dtype == np.int64
        for pages, total in ((copy.host_pages, 300), (copy.device_pages, 60)):
            assert len(np.unique(pages)) == len(pages)
            assert pages.min() >= 0 and pages.max() < total


def test_its_runs_are_those_that_the_engine_counts() -> None:
    done = replay(conversations(30, 4), device_pages=60, host_pages=300)
    assert len(copy_runs(done.loads)) == done.stats.load_back_runs
    assert len(copy_runs(done.saves)) == done.stats.saved_runs
    assert done.stats.saved_pages_per_run == pytest.approx(copy_runs(done.saves).mean())
    assert copy_runs(done.loads).sum() == host_runs(done.loads).sum()
    assert len(host_runs(done.loads)) <= len(copy_runs(done.loads))


def counts(stats: CacheStats) -> dict[str, object]:
    """What does not depend on how long anything took."""
    return {each.name: getattr(stats, each.name) for each in fields(Counters)} | {
        "device": replace(stats.device, eviction_age=NO_AGES),
        "host": replace(stats.host, eviction_age=NO_AGES),
        "evicted": (stats.device.eviction_age.count, stats.host.eviction_age.count),
    }


def test_the_same_requests_give_the_same_pages() -> None:
    first, second = (replay(conversations(20, 3), device_pages=60, host_pages=150) for _ in "ab")
    assert counts(first.stats) == counts(second.stats)
    for one, other in zip(
        (*first.loads, *first.saves), (*second.loads, *second.saves), strict=True
    ):
        assert one.request == other.request
        assert np.array_equal(one.host_pages, other.host_pages)
        assert np.array_equal(one.device_pages, other.device_pages)


def test_nothing_is_evicted_where_everything_fits() -> None:
    prompts = conversations(5, 3)
    done = replay(prompts, device_pages=whole_pages(prompts), host_pages=whole_pages(prompts))
    assert done.loads == [] and done.stats.dropped_tokens == 0
    assert all(len(host_runs([save])) == 1 for save in done.saves)


def test_limit_and_pools_that_are_too_small() -> None:
    prompts = conversations(5, 3)
    assert replay(prompts, device_pages=60, host_pages=60, limit=4).requests == 4
    with pytest.raises(ValueError, match=r"request 0 has \d+ whole pages, the device pool 2;"):
        replay(prompts, device_pages=2, host_pages=60)


def test_wrong_bytes_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that comes back with other bytes than were computed for it ends the replay."""
    served = module._serve

    def spoil(cache, tokens, result):
        served(cache, tokens, result)
        cache.host_pool.view()[...] = 0xEE

    monkeypatch.setattr(module, "_serve", spoil)
    with pytest.raises(InvariantError, match="other bytes than were computed"):
        replay(conversations(30, 4), device_pages=60, host_pages=300)


def test_runs_are_merged_in_the_order_of_host_pages() -> None:
    host = np.array([7, 8, 3, 4, 5, 20])
    device = np.array([1, 2, 8, 9, 11, 0])
    copies = [Copied(0, host, device), Copied(1, host[:0], device[:0])]
    assert host_runs(copies).tolist() == [3, 2, 1]
    assert copy_runs(copies).tolist() == [2, 1, 2, 1]
    assert host_runs([]).tolist() == []


def write(path: Path, *rows: object) -> Path:
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
    return path


def test_mooncake_rows_become_tokens(tmp_path: Path) -> None:
    rows = [
        {"timestamp": 0, "input_length": 1030, "output_length": 5, "hash_ids": [0, 4, 9]},
        "",
        {"input_length": 1024, "hash_ids": [0, 4]},
        {"input_length": 0, "hash_ids": []},
    ]
    first, second, third = read_mooncake(write(tmp_path / "trace.jsonl", *rows))
    assert first.dtype == np.int64 and len(first) == 1030 and len(third) == 0
    assert np.array_equal(first[:1024], second)
    assert len(np.unique(first)) == 1030  # no token of two blocks is the same


BROKEN = {
    "no json": ("{", "not a line of JSON"),
    "a list": ([1], "expected an object, got list"),
    "no length": ({"hash_ids": []}, '"input_length" must be'),
    "negative": ({"input_length": -1, "hash_ids": []}, "got -1"),
    "no ids": ({"input_length": 3}, '"hash_ids" must be a list'),
    "a bool": ({"input_length": 3, "hash_ids": [True]}, '"hash_ids" must be a list'),
    "a negative id": ({"input_length": 3, "hash_ids": [-1]}, '"hash_ids" must be a list'),
    "a huge id": ({"input_length": 3, "hash_ids": [2**60]}, '"hash_ids" must be a list'),
    "too few ids": ({"input_length": 513, "hash_ids": [0]}, "1 blocks of 512.*513.*expected 2"),
}


@pytest.mark.parametrize("row, text", BROKEN.values(), ids=BROKEN)
def test_a_broken_line_is_named(tmp_path: Path, row: object, text: str) -> None:
    good = {"input_length": 3, "hash_ids": [0]}
    path = write(tmp_path / "trace.jsonl", good, row)
    with pytest.raises(TraceError, match=rf"trace\.jsonl:2: .*{text}"):
        list(read_mooncake(path))


def test_a_trace_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"cannot read the trace .*nowhere"):
        list(read_mooncake(tmp_path / "nowhere"))


@pytest.mark.skipif(
    not TRACE.is_file(), reason=f"no {TRACE.name} in the optional data directory (HICACHE_SHARED)"
)
def test_the_conversation_trace_through_a_full_pool() -> None:
    done = replay(read_mooncake(TRACE), device_pages=4_000, host_pages=30_000, limit=600)
    assert done.requests == 600 and len(done.loads) > 0
    assert done.stats.host.free_pages == 0 and done.stats.evicted_host_tokens > 0
