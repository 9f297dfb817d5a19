"""F31: a pool is refused before it is mapped, by the tightest limit, divided by the local ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fake_system import GIB, V1_NO_LIMIT, FakeSystem

import hicache_nsa as hc
from hicache_nsa import _core
from hicache_nsa.memory_budget import read_limits

FMT = hc.formats.mha(1, 1, 512, dtype="fp8", page_size=1024)  # 1 MiB a page
GROUP = "/sys/fs/cgroup/nowhere/box"


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSystem:
    """For every pool of the test: a group of 8 GiB, 2 of them used, on a machine with 100."""
    fake = FakeSystem(tmp_path)
    fake.meminfo(128 * GIB, 100 * GIB)
    fake.mount("/sys/fs/cgroup", "cgroup2")
    fake.member("0::/nowhere/box")
    fake.group("/sys/fs/cgroup/nowhere")
    fake.group(GROUP, 8 * GIB, 2 * GIB)
    monkeypatch.setattr(
        "hicache_nsa.pools.host_room.read_limits", lambda **where: read_limits(tmp_path)
    )
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    return fake


def cache(size: int | str, **options: Any) -> hc.HiCache:
    given = {"local_ranks": 2, "memory_reserve": "1GiB", "prefault": False, **options}
    return hc.HiCache(FMT, device_pages=1, host_size=size, **given)


@pytest.fixture
def mapped(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of all host mappings made."""
    sizes: list[int] = []
    real = _core.HostMemory

    def watched(nbytes: int, **options: Any) -> _core.HostMemory:
        sizes.append(nbytes)
        return real(nbytes, **options)

    monkeypatch.setattr(_core, "HostMemory", watched)
    return sizes


def test_f31_two_ranks_divide_what_the_group_leaves(system: FakeSystem, mapped: list[int]) -> None:
    assert FMT.page_bytes == 1 << 20
    with cache("2.5GiB") as fits:
        assert fits.host_pool.nbytes == 2560 << 20
    assert mapped == [2560 << 20]
    with pytest.raises(hc.HiCacheError) as refused:
        cache("2.6GiB")
    assert mapped == [2560 << 20]  # no second one
    text = str(refused.value)
    for part in (
        f"host pool of 2662 pages (2.60 GiB): requested {2662 << 20} bytes, ",
        f"allowed {2560 << 20} bytes (2.50 GiB) by {GROUP}/memory.max",
        "8.00 GiB in all, 6.00 GiB available, 1.00 GiB kept in reserve",
        "5.00 GiB divided by 2 local ranks (local_ranks=2)",
        f"the largest that fits has 2560 pages, host_size={2560 << 20}; ask for fewer",
    ):
        assert part in text


def test_f31_one_page_more_than_fits_is_refused(system: FakeSystem, mapped: list[int]) -> None:
    with pytest.raises(hc.HiCacheError, match="of 2561 pages"):
        cache((2560 << 20) + (1 << 20))
    cache((2560 << 20) + (1 << 20) - 1).close()
    assert mapped == [2560 << 20]


def test_f31_max_and_the_old_sentinel_are_no_limit(system: FakeSystem) -> None:
    system.group(GROUP, "max", 2 * GIB)
    cache("49.5GiB").close()
    with pytest.raises(hc.HiCacheError, match=r"/proc/meminfo \(MemAvailable\)"):
        cache("49.6GiB")
    system.mount("/sys/fs/cgroup/memory", "cgroup", options="rw,memory")
    system.member("4:memory:/box")
    for sentinel in (V1_NO_LIMIT, 2**63 - 65536, 2**63 - 1, 2**64 - 1):
        system.old_group("/sys/fs/cgroup/memory/box", sentinel, GIB)
        cache("49.5GiB").close()


def test_f31_the_tightest_of_all_groups_above_wins(system: FakeSystem) -> None:
    system.group("/sys/fs/cgroup/nowhere", 6 * GIB, 3 * GIB)
    with pytest.raises(
        hc.HiCacheError, match=r"allowed 1073741824 .*/sys/fs/cgroup/nowhere/memory.max"
    ):
        cache("1.1GiB")
    system.group(GROUP)
    cache("1GiB").close()


@pytest.mark.parametrize(
    ("value", "size", "source"),
    [
        ("2", "2.5GiB", "LOCAL_WORLD_SIZE=2"),
        ("1", "5GiB", "LOCAL_WORLD_SIZE=1"),
        (None, "5GiB", "LOCAL_WORLD_SIZE is not set"),
        ("0", "5GiB", "LOCAL_WORLD_SIZE='0' is no count"),
        ("two", "5GiB", "LOCAL_WORLD_SIZE='two' is no count"),
        ("-2", "5GiB", "LOCAL_WORLD_SIZE='-2' is no count"),
    ],
)
def test_f31_ranks_are_those_of_the_launcher(
    system: FakeSystem, monkeypatch: pytest.MonkeyPatch, value: str | None, size: str, source: str
) -> None:
    if value is not None:
        monkeypatch.setenv("LOCAL_WORLD_SIZE", value)
    cache(size, local_ranks=None).close()
    with pytest.raises(hc.HiCacheError, match=r"local ranks? \(" + source):
        cache("5.1GiB", local_ranks=None)
    cache("2.5GiB", local_ranks=2).close()  # what is given counts


def test_f31_a_later_rank_gets_the_share_of_the_first(system: FakeSystem) -> None:
    """Its memory is in use by then: half of what is left would be less."""
    with cache("1.5GiB") as first:
        assert first.host_pool._claim is not None
        first.host_pool._claim.settle(0)
        system.group(GROUP, 8 * GIB, 2 * GIB + (1536 << 20))
        cache("1GiB").close()  # this process's share is 2.5 GiB
        with pytest.raises(hc.HiCacheError, match=r"allowed 1073741824 .*1.50 GiB held by"):
            cache("1.1GiB")
        system.group(GROUP, 8 * GIB, 7 * GIB)  # somebody else took it: half of the reserve stays
        with pytest.raises(hc.HiCacheError, match="allowed 536870912 "):
            cache("1GiB")
    system.group(GROUP, 8 * GIB, 4 * GIB)
    cache("1.5GiB").close()  # no pool is there any more: a first look again


def test_f31_memory_limit_takes_the_place_of_what_was_read(system: FakeSystem) -> None:
    """A machine that grows: 8 GiB are too little, says its user."""
    one = {"local_ranks": 1, "memory_reserve": None, "memory_limit": "64GiB"}
    with cache("40GiB", **one):
        with pytest.raises(hc.HiCacheError, match=r"allowed 25769803776 .* by memory_limit: 64.00"):
            cache("24.1GiB", **one)
        cache("24GiB", **one).close()
    with pytest.raises(hc.HiCacheError, match=r"allowed 33822867456 .*raise memory_limit="):
        cache("32GiB", memory_limit="64GiB")  # a reserve and ranks that are given hold
    with pytest.raises(hc.HiCacheError, match=r"allowed 1048576 .*by memory_limit"):
        cache("2MiB", **{**one, "memory_limit": 1 << 20})


def test_f31_where_not_one_page_fits_it_says_so(system: FakeSystem) -> None:
    system.group(GROUP, 8 * GIB, 8 * GIB)
    with pytest.raises(hc.HiCacheError, match="not one page of 1048576 bytes fits; free memory"):
        cache("1GiB")
    cache_without = hc.HiCache(FMT, device_pages=1, host_pages=0)
    cache_without.close()


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"memory_limit": "a lot"}, ValueError, "memory_limit='a lot' is not a size"),
        ({"memory_limit": 0}, ValueError, "memory_limit=0 leaves no memory"),
        ({"memory_limit": -1}, ValueError, "memory_limit=-1 is negative"),
        ({"memory_limit": 1.5}, TypeError, "memory_limit must be an int or a string"),
        ({"memory_reserve": "-1GiB"}, ValueError, "memory_reserve='-1GiB' is not a size"),
        ({"memory_reserve": True}, TypeError, "memory_reserve=True"),
        ({"local_ranks": 0}, ValueError, "local_ranks=0 must be 1 or more"),
        ({"local_ranks": "2"}, TypeError, "local_ranks must be an int"),
        ({"local_ranks": True}, TypeError, "local_ranks must be an int"),
    ],
)
def test_f31_bad_options_are_refused_first(
    mapped: list[int], options: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        hc.HiCache(FMT, device_pages=1, host_pages=1, **options)
    with pytest.raises(error, match=text):
        hc.HostPool(FMT, pages=1, **options)
    assert mapped == []
