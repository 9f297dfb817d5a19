"""``read_limits`` over trees of system files: every number, and the file that it came from."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_system import GIB, KIB, MIB, V1_NO_LIMIT, FakeSystem

from hicache_nsa.memory_budget import MemoryLimit, MemoryLimits, read_limits
from hicache_nsa.memory_budget.mounts import Mount, mount_of, parse_mounts

V2, V1 = "/sys/fs/cgroup", "/sys/fs/cgroup/memory"


@pytest.fixture
def system(tmp_path: Path) -> FakeSystem:
    return FakeSystem(tmp_path)


def groups(system: FakeSystem) -> dict[str, tuple[int, int]]:
    """Of the control groups: {file: (total, available)}."""
    return {
        limit.source: (limit.total, limit.available)
        for limit in read_limits(system.root).memory
        if not limit.source.startswith("/proc")
    }


def test_of_the_machine(system: FakeSystem) -> None:
    assert read_limits(system.root) == MemoryLimits()
    system.meminfo(4 * GIB, 3 * GIB)
    assert read_limits(system.root).memory == (
        MemoryLimit("/proc/meminfo (MemAvailable)", 4 * GIB, 3 * GIB),
        MemoryLimit("/proc/meminfo (MemTotal)", 4 * GIB, 4 * GIB),
    )
    system.meminfo(4 * GIB, None)
    assert [limit.available for limit in read_limits(system.root).memory] == [4 * GIB]


def test_a_group_and_all_above_it(system: FakeSystem) -> None:
    system.mount(V2, "cgroup2")
    system.member("0::/nowhere/b")
    system.group(f"{V2}/nowhere/b", 900, 300, inactive_file=100)
    system.group(f"{V2}/nowhere", 800, 500, high=700)
    system.group(f"{V2}/nowhere/c", 1, 0)  # a neighbour
    assert groups(system) == {
        f"{V2}/nowhere/b/memory.max": (900, 700),
        f"{V2}/nowhere/memory.max": (800, 300),
        f"{V2}/nowhere/memory.high": (700, 200),
    }


def test_what_is_over_its_limit_leaves_nothing(system: FakeSystem) -> None:
    system.mount(V2, "cgroup2")
    system.member("0::/a")
    system.group(f"{V2}/a", 100, 300)
    assert groups(system) == {f"{V2}/a/memory.max": (100, 0)}
    system.group(f"{V2}/a", 100, 30, inactive_file=90)  # more cache than use: read at two moments
    assert groups(system) == {f"{V2}/a/memory.max": (100, 100)}


def test_in_a_namespace_the_own_group_is_the_mount(system: FakeSystem) -> None:
    system.mount(V2, "cgroup2")
    system.member("0::/")
    system.group(V2, 500, 200)
    assert groups(system) == {f"{V2}/memory.max": (500, 300)}


def test_a_mount_of_a_part_of_the_hierarchy(system: FakeSystem) -> None:
    system.mount(V1, "cgroup", root="/nowhere/1f", options="rw,memory")
    system.member("5:cpu,cpuacct:/elsewhere")
    system.member("4:memory:/nowhere/1f/inner")
    system.old_group(f"{V1}/inner", 800, 300)
    system.old_group(V1, 700, 400, inactive_file=50)
    assert groups(system) == {
        f"{V1}/inner/memory.limit_in_bytes": (800, 500),
        f"{V1}/memory.limit_in_bytes": (700, 350),
    }


def test_a_name_of_the_host_that_the_container_cannot_see(system: FakeSystem) -> None:
    system.mount(V1, "cgroup", root="/nowhere/x", options="rw,memory")
    system.member("4:memory:/nowhere/name")
    system.old_group(V1, 700, 400)
    assert groups(system) == {f"{V1}/memory.limit_in_bytes": (700, 300)}


def test_groups_outside_of_the_namespace_are_not_ours(system: FakeSystem) -> None:
    system.mount(V2, "cgroup2")
    system.member("0::/../neighbour")
    system.group(V2, 500, 200)
    assert groups(system) == {}


def test_two_hierarchies_at_once(system: FakeSystem) -> None:
    """The memory controller is where its limits are."""
    system.mount(f"{V2}/unified", "cgroup2")
    system.mount(f"{V2}/cpu", "cgroup", options="rw,cpu")
    system.mount(V1, "cgroup", options="rw,memory")
    for line in ("3:cpu:/far", "2:memory:/a", "1:name=systemd:/s", "0::/u"):
        system.member(line)
    system.old_group(f"{V1}/a", 800, 300)
    system.old_group(V1, V1_NO_LIMIT, 99 * GIB)
    system.old_group(f"{V2}/cpu/far", 1, 0)
    assert groups(system) == {f"{V1}/a/memory.limit_in_bytes": (800, 500)}
    system.group(f"{V2}/unified/u", 600, 100)
    assert len(groups(system)) == 2


def test_a_limit_above_what_can_be_seen(system: FakeSystem) -> None:
    system.mount(V1, "cgroup", options="rw,memory")
    system.member("2:memory:/")
    system.old_group(V1, V1_NO_LIMIT, 300, above=900)
    assert groups(system) == {f"{V1}/memory.stat (hierarchical_memory_limit)": (900, 600)}


def test_a_group_above_that_does_not_count_those_below(system: FakeSystem) -> None:
    system.mount(V1, "cgroup", options="rw,memory")
    system.member("2:memory:/nowhere/b")
    system.old_group(f"{V1}/nowhere/b", 800, 300, hierarchy=0)
    system.old_group(f"{V1}/nowhere", 10, 5, hierarchy=0)
    assert groups(system) == {f"{V1}/nowhere/b/memory.limit_in_bytes": (800, 500)}


def test_without_mountinfo_the_usual_places(system: FakeSystem) -> None:
    (system.root / "proc/self/mountinfo").unlink()
    system.member("2:memory:/a")
    system.member("0::/b")
    system.old_group(f"{V1}/a", 800, 300)
    system.group(f"{V2}/b", 900, 300)
    assert set(groups(system)) == {f"{V1}/a/memory.limit_in_bytes", f"{V2}/b/memory.max"}


def test_of_another_process(system: FakeSystem) -> None:
    system.mount(V2, "cgroup2")
    system.group(f"{V2}/a", 900, 300)
    system.write("/proc/17/cgroup", "0::/a\n")
    text = (system.root / "proc/self/mountinfo").read_text(encoding="utf-8")
    system.write("/proc/17/mountinfo", text)
    limits = read_limits(system.root, "17").memory
    assert limits == (MemoryLimit(f"{V2}/a/memory.max", 900, 600),)


@pytest.mark.parametrize("text", ["", "max", "-1", "12.5", "lots", "\x00", "١٢"])
def test_what_is_no_number_is_no_limit(system: FakeSystem, text: str) -> None:
    system.mount(V2, "cgroup2")
    system.member("0::/a")
    system.write(f"{V2}/a/memory.max", text)
    system.write(f"{V2}/a/memory.current", text)
    assert groups(system) == {}


def test_mounts_with_odd_names() -> None:
    text = (
        "1 2 0:3 / /a\\040b rw shared:1 - tmpfs none rw,size=1k\n"
        "rubbish\n4 5 0:6 /x /a rw - y z w\n"
    )
    mounts = parse_mounts(text)
    assert mounts == [
        Mount("/", "/a b", "tmpfs", ("rw", "size=1k")),
        Mount("/x", "/a", "y", ("w",)),
    ]
    assert mount_of(mounts, "/a b/c") == mounts[0]
    assert mount_of(mounts, "/ab") is None
    over = [*mounts, Mount("/", "/a", "later", ())]
    assert mount_of(over, "/a") == over[2]


HUGE = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages"


def test_huge_pages_come_out_of_their_own_pool(system: FakeSystem) -> None:
    system.meminfo(4 * GIB, 3 * GIB)
    system.huge_pages(2 * MIB, total=100, free=60, reserved=10)
    limits = read_limits(system.root, huge_page_bytes=2 * MIB)
    assert limits == MemoryLimits((), (MemoryLimit(HUGE, 200 * MIB, 100 * MIB),))
    none = read_limits(system.root, huge_page_bytes=GIB).space[0]
    assert (none.total, none.available) == (0, 0) and "hugepages-1048576kB" in none.source


def test_huge_pages_that_the_group_may_not_take(system: FakeSystem) -> None:
    system.huge_pages(2 * MIB, total=100, free=60)
    system.mount(V2, "cgroup2")
    system.member("0::/a")
    system.write(f"{V2}/a/hugetlb.2MB.max", 50 * MIB)
    system.write(f"{V2}/a/hugetlb.2MB.current", 8 * MIB)
    system.write(f"{V2}/a/hugetlb.2MB.rsvd.max", "max")
    system.write(f"{V2}/a/hugetlb.1GB.max", 0)
    limits = read_limits(system.root, huge_page_bytes=2 * MIB).space
    assert limits[1:] == (MemoryLimit(f"{V2}/a/hugetlb.2MB.max", 50 * MIB, 42 * MIB),)


def room(block: int, blocks: int, free: int) -> os.statvfs_result:
    return SimpleNamespace(f_bsize=block, f_frsize=block, f_blocks=blocks, f_bavail=free)  # type: ignore[return-value]


def test_a_file_in_a_tmpfs_takes_memory_and_room(system: FakeSystem) -> None:
    system.meminfo(4 * GIB, 3 * GIB)
    system.mount("/", "ext4")
    system.mount("/dev/shm", "tmpfs")
    system.write("/dev/shm/other", "")
    asked: list[Path] = []

    def space(path: Path) -> os.statvfs_result:
        asked.append(path)
        return room(4 * KIB, 1000, 600)

    limits = read_limits(system.root, file=Path("/dev/shm/pool"), space=space)
    assert asked == [(system.root / "dev/shm").resolve()]
    assert limits.space == (MemoryLimit("free space of /dev/shm (tmpfs)", 4000 * KIB, 2400 * KIB),)
    assert len(limits.memory) == 2


def test_a_file_behind_a_link_is_where_the_link_leads(system: FakeSystem) -> None:
    system.mount("/", "ext4")
    system.mount("/dev/fast", "tmpfs")
    system.write("/dev/fast/other", "")
    (system.root / "dev/shm").symlink_to("fast")
    limits = read_limits(system.root, file=Path("/dev/shm/pool"), space=lambda _: room(1, 9, 5))
    assert limits.space == (MemoryLimit("free space of /dev/fast (tmpfs)", 9, 5),)


def test_a_file_in_a_hugetlbfs_takes_huge_pages(system: FakeSystem) -> None:
    system.meminfo(4 * GIB, 3 * GIB)
    system.huge_pages(2 * MIB, total=100, free=60)
    system.mount("/dev/hugepages", "hugetlbfs")
    system.write("/dev/hugepages/other", "")
    file = Path("/dev/hugepages/pool")
    pool = MemoryLimit(HUGE, 200 * MIB, 120 * MIB)
    limits = read_limits(system.root, file=file, space=lambda _: room(2 * MIB, 0, 0))
    assert limits == MemoryLimits((), (pool,))  # a mount without a size of its own
    limits = read_limits(system.root, file=file, space=lambda _: room(2 * MIB, 20, 15))
    mount = MemoryLimit("free space of /dev/hugepages (hugetlbfs)", 40 * MIB, 30 * MIB)
    assert limits == MemoryLimits((), (pool, mount))


def test_this_machine() -> None:
    """The files as they are: limits that make sense, and the free space that the system tells."""
    limits = read_limits(file=Path("/dev/shm/hicache-nsa-not-there"))
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    totals = {limit.source: limit.total for limit in limits.memory}
    assert abs(totals["/proc/meminfo (MemTotal)"] - physical) <= physical // 10
    assert all(0 <= limit.available <= limit.total for limit in limits.memory)
    told = os.statvfs("/dev/shm")
    assert limits.space[0].total == told.f_blocks * told.f_frsize
    assert limits.space[0].source == "free space of /dev/shm (tmpfs)"
