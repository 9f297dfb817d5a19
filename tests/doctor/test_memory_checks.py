from __future__ import annotations

from dataclasses import replace

import pytest
from machines import CPU_MACHINE, GIB, GPU, GPU_MACHINE, NODES, changed, machine_limit, memory_of

from hicache_nsa.doctor import FAIL, OK, WARN
from hicache_nsa.doctor.check_memory import (
    check_cgroup,
    check_huge_pages,
    check_locked_memory,
    check_memory,
    check_numa,
    check_shared_memory,
)
from hicache_nsa.doctor.facts import (
    INTERRUPTED,
    Facts,
    HugePages,
    Locked,
    Numa,
    SharedMemory,
)
from hicache_nsa.memory_budget import MemoryLimit

GROUP = "/sys/fs/cgroup/memory.max"


def with_memory(*limits: MemoryLimit, ranks: int = 1) -> Facts:
    return replace(CPU_MACHINE, memory=memory_of(*limits, ranks=ranks))


def group(total: int, available: int) -> MemoryLimit:
    return MemoryLimit(GROUP, total, available)


def test_the_largest_pool() -> None:
    facts = with_memory(machine_limit(100 * GIB), ranks=2)
    line = check_memory(facts)
    allowed = (100 * GIB - 16 * GIB) // 2
    assert line.verdict == OK
    assert f"{allowed // 3_076_352:,} pages, {allowed // 3_076_352 * 64:,} tokens" in line.meaning
    assert "42.00 GiB for one pool, by /proc/meminfo (MemAvailable)" in line.found
    assert "divided by 2 local ranks (LOCAL_WORLD_SIZE is not set)" in line.found


def test_little_memory() -> None:
    small = check_memory(with_memory(group(2 * GIB, GIB)))
    assert small.verdict == WARN and str(small.fix).endswith(f"raise the limit of {GROUP}")
    none = check_memory(with_memory(group(2 * GIB, 0)))
    assert none.verdict == FAIL and none.meaning == "Not one page fits."


def test_no_limit_at_all() -> None:
    line = check_memory(with_memory())
    assert line.verdict == WARN and "memory_limit=" in str(line.fix)


def test_control_groups() -> None:
    assert check_cgroup(with_memory(machine_limit(64 * GIB))).found == "no limit on memory"
    half = check_cgroup(with_memory(machine_limit(64 * GIB), group(64 * GIB, 32 * GIB)))
    assert half.verdict == OK and half.found.startswith(f"{GROUP}: 64.00 GiB, 32.00 GiB")
    less = with_memory(machine_limit(64 * GIB), group(64 * GIB, 40 * GIB), group(32 * GIB, GIB))
    line = check_cgroup(less)
    assert line.verdict == WARN and "64.00 GiB available" in line.meaning
    assert "--memory" in str(line.fix)
    assert check_cgroup(with_memory(group(GIB, GIB))).verdict == OK  # nothing known of the machine


def test_memory_that_may_be_locked() -> None:
    assert check_locked_memory(GPU_MACHINE).found == "unlimited"
    little = Locked(64 << 10)
    counted = check_locked_memory(replace(GPU_MACHINE, locked=little))
    assert counted.verdict == OK and "does not count" in counted.meaning
    assert counted.found == "64.00 KiB (RLIMIT_MEMLOCK)"
    assert check_locked_memory(replace(CPU_MACHINE, locked=little)).verdict == OK


def test_memory_that_may_be_why_copies_failed() -> None:
    little = replace(GPU_MACHINE, locked=Locked(64 << 10))
    failed = check_locked_memory(changed(little, measured={"problem": "Pinning failed"}))
    assert failed.verdict == FAIL and "ulimit -l unlimited" in str(failed.fix)
    for other in (
        changed(little, measured={"problem": "no GPU"}, cuda={"problem": "no GPU"}),
        changed(little, measured={"problem": INTERRUPTED}),
    ):
        assert check_locked_memory(other).verdict == OK
    unlimited = changed(GPU_MACHINE, measured={"problem": "Pinning failed"})
    assert check_locked_memory(unlimited).verdict == OK


def test_one_node() -> None:
    assert check_numa(replace(GPU_MACHINE, numa=Numa({0: (10,)}))).found == "one node"
    assert check_numa(replace(GPU_MACHINE, numa=Numa())).found == "no nodes"


def test_several_nodes() -> None:
    line = check_numa(GPU_MACHINE)
    assert line.verdict == OK
    assert line.found == "2 nodes, the GPU is on 0; distances from there: 0: 10, 1: 21"
    assert check_numa(replace(CPU_MACHINE, numa=NODES)).verdict == OK


@pytest.mark.parametrize(
    ("numa", "meaning", "fix"),
    [
        ({"allowed_nodes": frozenset({1})}, "gets no memory of the GPU's node", "--cpuset-mems"),
        ({"allowed_cpus": frozenset({2, 3})}, "runs on none of the cores", "--cpunodebind=0"),
    ],
)
def test_far_from_the_gpu(numa: dict[str, object], meaning: str, fix: str) -> None:
    line = check_numa(changed(GPU_MACHINE, numa=numa))
    assert line.verdict == WARN and meaning in line.meaning and fix in str(line.fix)
    assert "numa='auto'" in f"{line.meaning} {line.fix}"


@pytest.mark.parametrize("node", [None, 7])
def test_a_gpu_on_an_unknown_node(node: int | None) -> None:
    line = check_numa(changed(GPU_MACHINE, hardware={"pci": (replace(GPU, node=node),)}))
    assert line.verdict == WARN and "the GPU's is unknown" in line.found
    assert "numa=N" in str(line.fix) and "numa='auto'" in str(line.fix)
    assert check_numa(changed(GPU_MACHINE, hardware={"pci": ()})).verdict == WARN


@pytest.mark.parametrize(
    ("setting", "verdict"), [("always", OK), ("madvise", OK), ("never", WARN), (None, WARN)]
)
def test_transparent_huge_pages(setting: str | None, verdict: str) -> None:
    line = check_huge_pages(replace(GPU_MACHINE, huge_pages=HugePages(setting, {})))
    assert line.verdict == verdict and line.found.endswith("explicit: none")


def test_explicit_huge_pages() -> None:
    pages = HugePages("always", {1 << 30: (0, 0), 2 << 20: (100, 40)})
    line = check_huge_pages(replace(GPU_MACHINE, huge_pages=pages))
    assert line.found == "transparent: always; explicit: 2.00 MiB: 40 of 100 free"


@pytest.mark.parametrize(
    ("total", "free", "verdict"),
    [(64 * GIB, GIB, OK), (64 << 20, 64 << 20, WARN), (64 * GIB, 0, WARN), (None, None, WARN)],
)
def test_shared_memory(total: int | None, free: int | None, verdict: str) -> None:
    line = check_shared_memory(replace(GPU_MACHINE, shared_memory=SharedMemory(total, free)))
    assert line.verdict == verdict
    assert (line.fix is None) == (verdict == OK)
