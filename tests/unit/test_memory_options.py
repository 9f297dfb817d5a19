"""How host memory is asked for, and what it is told to be."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import hicache_nsa as hc
from hicache_nsa import _core
from hicache_nsa.pools import HostMemoryOptions, memory_kind, numa

FMT = hc.formats.dsa(2)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"huge_pages": "always"}, ValueError, "huge_pages='always'"),
        ({"huge_pages": True}, TypeError, "huge_pages must be a string"),
        ({"numa": "near"}, ValueError, "numa='near'"),
        ({"numa": -1}, ValueError, "numa=-1"),
        ({"numa": 1024}, ValueError, "numa=1024"),
        ({"numa": True}, TypeError, "numa must be an int"),
        ({"prepare_first": -1}, ValueError, "prepare_first=-1"),
        ({"prepare_first": "much"}, ValueError, "prepare_first='much'"),
        ({"prepare_step": 0}, ValueError, "prepare_step=0"),
        ({"prepare_step": 1000}, ValueError, "multiple of 4096"),
        ({"prepare_threads": -1}, ValueError, "prepare_threads=-1"),
        ({"prepare_threads": 2000}, ValueError, "prepare_threads=2000"),
        ({"prefault": 1}, TypeError, "prefault must be True or False"),
    ],
)
def test_an_option_that_does_not_fit_is_refused(options, error, text) -> None:
    for make in (
        lambda: HostMemoryOptions(**options),
        lambda: hc.HostPool(FMT, pages=2, **options),
        lambda: hc.HiCache(FMT, device_pages=2, host_pages=2, **options),
    ):
        with pytest.raises(error, match=text):
            make()


def test_sizes_are_read_as_everywhere() -> None:
    options = HostMemoryOptions(prepare_first="2GiB", prepare_step="64MiB")
    assert (options.first_bytes, options.step_bytes) == (2 << 30, 64 << 20)
    assert HostMemoryOptions(prepare_first=10**30).first_bytes == 1 << 62


def free_huge_pages() -> int:
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    values = dict(line.split()[:2] for line in lines if line)
    return int(values.get("HugePages_Free:", 0)) - int(values.get("HugePages_Rsvd:", 0))


def test_explicit_huge_pages_or_the_reason_why_not() -> None:
    pool = hc.HostPool(FMT, pages=32, huge_pages="explicit")
    if free_huge_pages() * 2 >= pool.nbytes >> 20:
        assert pool.memory_kind.huge_pages == "explicit"
    else:
        with pytest.warns(RuntimeWarning, match=r"huge pages.*transparent") as told:
            assert pool.memory_kind.huge_pages == "transparent"
        assert len(told) == 1
    pool.view()[:] = 3
    assert pool.wait_ready(30)
    pool.check()


@pytest.mark.parametrize("kind", ["transparent", "off"])
def test_small_pages_and_transparent_ones(kind: str) -> None:
    pool = hc.HostPool(FMT, size="32MiB", huge_pages=kind)
    told = pool.memory_kind
    assert pool.wait_ready(30)
    assert (told.huge_pages, told.numa_node, told.nbytes) == (kind, None, pool.nbytes)
    done = pool.memory_kind
    assert (done.ready_bytes, done.pinned_bytes, done.pageable_bytes) == (
        pool.nbytes,
        0,
        pool.nbytes,
    )
    if kind == "off":
        assert pool.huge_page_bytes() == 0


def test_a_node_that_is_not_there_is_a_warning() -> None:
    pool = hc.HostPool(FMT, pages=2, numa=999)
    with pytest.warns(RuntimeWarning, match="NUMA node 999: .*numa='off'"):
        assert pool.memory_kind.numa_node is None
    pool.view()[:] = 1


def test_node_0_is_there() -> None:
    pool = hc.HostPool(FMT, pages=2, numa=0)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        node = pool.memory_kind.numa_node
    assert node == 0 or "NUMA node 0" in str(told[0].message)  # a container may forbid mbind


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with two nodes whose GPU is on node 1."""
    for node in ("node0", "node1"):
        (tmp_path / "devices/system/node" / node).mkdir(parents=True)
    gpu = tmp_path / "bus/pci/devices/0000:1b:00.0"
    gpu.mkdir(parents=True)
    (gpu / "numa_node").write_text("1\n")
    monkeypatch.setattr(numa, "SYSTEM", tmp_path)
    monkeypatch.setattr(_core, "cuda_device_bus_id", lambda device: "0000:1B:00.0")
    return tmp_path


def test_the_node_of_the_gpu(system: Path) -> None:
    assert numa.count_nodes() == 2
    assert numa.node_for("auto", "cuda:0") == 1
    assert numa.node_for("auto", "cpu") == -1
    assert numa.node_for("off", "cuda:0") == -1
    assert numa.node_for(0, "cuda:0") == numa.node_for(0, "cpu") == 0


def test_no_node_where_nobody_says_which(system: Path) -> None:
    place = system / "bus/pci/devices/0000:1b:00.0/numa_node"
    for text in ("-1\n", "", "what"):
        place.write_text(text)
        assert numa.node_for("auto", "cuda:0") == -1
    place.unlink()
    assert numa.node_for("auto", "cuda:0") == -1


def test_one_node_is_none_in_particular(system: Path) -> None:
    (system / "devices/system/node/node1").rmdir()
    assert numa.node_for("auto", "cuda:0") == -1


def test_huge_pages_are_counted_in_the_mappings_of_the_pool(tmp_path, monkeypatch) -> None:
    smaps = tmp_path / "smaps"
    smaps.write_text(
        "7f0000000000-7f0000400000 rw-p 00000000 00:00 0 \n"
        "Rss:                4096 kB\nAnonHugePages:      2048 kB\n"
        "7f0000400000-7f0000800000 rw-s 00000000 00:0e 1  /dev/hugepages/a\n"
        "Shared_Hugetlb:     4096 kB\nPrivate_Hugetlb:       0 kB\n"
        "7f0000800000-7f0000c00000 rw-p 00000000 00:00 0 \nAnonHugePages:      4096 kB\n"
    )
    monkeypatch.setattr(memory_kind, "SMAPS", smaps)
    assert memory_kind.huge_page_bytes(0x7F0000001000, 0x700000) == (2048 + 4096) << 10
    assert memory_kind.huge_page_bytes(0x7F0000C00000, 4096) == 0
    monkeypatch.setattr(memory_kind, "SMAPS", tmp_path / "none")
    assert memory_kind.huge_page_bytes(0x7F0000001000, 0x700000) == 0
