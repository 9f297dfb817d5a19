"""A host file beside the other parts of host memory: the budget, the preparation, the digests."""

from __future__ import annotations

import gc
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from kept_cache import FORMAT, KeptCache
from small_cache import LONG, SmallCache

import hicache_nsa as hc
from hicache_nsa import _core, testing
from hicache_nsa.memory_budget import claims

A = list(range(20))
LARGE = {"device_pages": 4, "host_size": "1100MiB", "prepare_first": "600MiB"}
MIB = 1 << 20


@pytest.fixture
def file() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="hicache-test-") as folder:
        yield Path(folder) / "pool"


def claimed() -> list[tuple[int, int]]:
    """Of each pool: what it took from the budget, what of that is not in use yet."""
    gc.collect()
    return [(claim.nbytes, claim.pending) for claim in claims._claims]


def held(file: Path) -> int:
    return file.stat().st_blocks * 512


def test_a_wrong_page_that_a_load_still_reads_is_not_kept(file: Path) -> None:
    """It leaves the tree at the first load's ack, and is free at the second one's: a process that
    is killed between them must not leave it to the next one.
    """
    kept = {"device_pages": 16, "host_pages": 16, "host_file": str(file)}
    small = SmallCache(acks="poll", verify="all", **kept)
    small.put_on_host(A)
    pages = small.match_prefix(A, count=False).host_pages
    testing.corrupt(small.cache, int(pages[1]), 1, 5)
    with testing.hold(small.cache, "h2d"):
        small.end(small.start(A[:12]), "cancel")
        second = small.start(A)
    small.settle()
    assert small.poll(1) == 1
    assert small.cache._state.condemned > 0
    assert small.host_pool.published().tolist() == []
    small.cache.check()
    assert small.poll(1) == 1
    small.end(second)
    assert small.drain(LONG)
    small.cache.check()
    small.cache.close()


@pytest.mark.parametrize("acks", ["auto", "poll"])
def test_what_a_load_found_wrong_before_the_end_is_not_kept(file: Path, acks: str) -> None:
    with KeptCache(file, verify="all") as first:
        first.save(A)
        first.save([*A[:8], 7, 7, 7, 7])
    second = KeptCache(file, verify="all", acks=acks)
    match = second.cache.match_prefix(A)
    testing.corrupt(second.cache, int(match.host_pages[2]), 1)
    load = second.cache.load_back(match)
    assert load is not None and load._loads[0].ticket.wait_end(30)
    second.cache.close()  # with no call that takes the load in
    with KeptCache(file, verify="off") as third:
        assert third.cache.stats().damaged_host_pages == 0
        assert third.found(A) == 8
        assert third.found([*A[:8], 7, 7, 7, 7]) == 12


@pytest.mark.parametrize("prefault", [True, False])
def test_a_file_that_was_reserved_at_once_has_nothing_left_to_take(
    file: Path, prefault: bool
) -> None:
    for _ in range(2):
        with testing.hold_preparation():
            cache = hc.HiCache(FORMAT, device_pages=4, host_size="8MiB", prepare_first=0,
                               host_file=file, prefault=prefault)  # fmt: skip
        assert [pending for _, pending in claimed()] == [0]
        cache.check()
        cache.close()
    assert claimed() == []


def test_a_file_that_is_there_in_part_claims_the_rest_until_it_is_touched(file: Path) -> None:
    with testing.hold_preparation():
        hc.HiCache(FORMAT, host_file=file, **LARGE).close()
        missing = file.stat().st_size - held(file)
        assert missing > 400 * MIB
        cache = hc.HiCache(FORMAT, host_file=file, **LARGE)
    ((taken, left),) = claimed()
    assert taken == missing and missing - 4096 < left <= missing  # less what pads the file
    testing.finish_preparation(cache)
    assert cache.host_pool.wait_ready(60)
    cache.poll()
    assert claimed() == [(missing, 0)]
    cache.close()


def test_without_touching_the_rest_of_a_file_is_reserved(file: Path) -> None:
    """Else a store into it could meet a full file system, which ends the process."""
    with testing.hold_preparation():
        hc.HiCache(FORMAT, host_file=file, **LARGE).close()
    assert held(file) < file.stat().st_size
    with hc.HiCache(FORMAT, host_file=file, prefault=False, **LARGE):
        assert held(file) == file.stat().st_size


def test_a_file_in_use_is_larger_than_the_limit(file: Path) -> None:
    with KeptCache(file) as first:
        first.save(A)
    with KeptCache(file, memory_limit=1, prefault=False) as second:
        assert claimed() == [(0, 0)]
        assert second.found(A) == 20


def test_a_refusal_names_the_files_in_the_way(file: Path) -> None:
    pool = {"device_pages": 4, "host_size": "8MiB", "host_file": file}
    hc.HiCache(FORMAT, weights="a", **pool).close()
    with pytest.warns(RuntimeWarning, match="set aside"):
        hc.HiCache(FORMAT, weights="b", **pool).close()
    with pytest.raises(hc.HiCacheError) as refused:
        hc.HiCache(FORMAT, weights="c", memory_limit="4MiB", **pool)
    for each in (file, Path(f"{file}.set-aside-1")):
        assert f"{each} holds {held(each)} bytes: delete it" in str(refused.value)
    with pytest.raises(hc.HiCacheError) as refused:
        hc.HiCache(FORMAT, device_pages=4, host_size="8MiB", memory_limit="4MiB")
    assert "delete" not in str(refused.value)


def test_a_warning_that_is_an_error_leaves_the_file_to_the_next_one(file: Path) -> None:
    with KeptCache(file, weights="a") as first:
        first.save(A)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            KeptCache(file)
        except RuntimeWarning as error:  # which holds the frames
            assert "was set aside" in str(error)
            with KeptCache(file) as second:
                assert second.found(A) == 0
    assert claimed() == []


def test_memory_that_cannot_be_had_leaves_no_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise MemoryError("the file system is full")

    for there in (False, True):
        with monkeypatch.context() as broken:
            broken.setattr(_core.HostFile, "memory", full)
            try:
                KeptCache(file)
            except hc.HiCacheError as error:
                broken.undo()
                assert "full" in str(error)
                assert file.exists() is there
                assert claimed() == []
                with KeptCache(file) as next_one:
                    next_one.save(A)


def test_text_that_is_not_utf_8(file: Path) -> None:
    with pytest.raises(ValueError, match=r"host_file=.* is not UTF-8"):
        KeptCache(file.parent / "\udcff")
    with pytest.raises(ValueError, match=r"weights=.* is not UTF-8"):
        KeptCache(file, weights="\udcff")
    assert list(file.parent.iterdir()) == []
