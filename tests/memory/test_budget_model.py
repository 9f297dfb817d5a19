"""Random system trees and options: the budget is what a naive model says, to the byte."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from fake_system import GIB, MIB, V1_NO_LIMIT, FakeSystem
from hypothesis import given, settings
from hypothesis import strategies as st

from hicache_nsa.memory_budget import (
    MemoryLimit,
    MemoryLimits,
    budget,
    default_reserve,
    read_limits,
)

SIZES = st.one_of(st.integers(0, 64 * MIB), st.integers(0, 600 * GIB))


@dataclass(frozen=True)
class OneGroup:
    limit: int | None
    used: int
    cache: int


GROUPS = st.lists(st.builds(OneGroup, st.none() | SIZES, SIZES, SIZES), min_size=1, max_size=4)
VIEWS = st.sampled_from(["host", "part", "namespace"])


def build(
    system: FakeSystem, chain: list[OneGroup], version: int, view: str, neighbour: int
) -> list[tuple[str, int, int]]:
    """Groups one below the other, the first on top. What bounds: (file, total, available)."""
    point = "/sys/fs/cgroup" if version == 2 else "/sys/fs/cgroup/memory"
    names = [f"g{i}" for i in range(len(chain))]
    # A part of the hierarchy is mounted, whose root is the first group; so it is in a namespace,
    # where paths begin there too.
    folders = [
        "/".join([point, *(names[: i + 1] if view == "host" else names[1 : i + 1])])
        for i in range(len(chain))
    ]
    root = "/g0" if view == "part" else "/"
    path = "/" + "/".join(names[1:] if view == "namespace" else names)
    if version == 2:
        system.mount(point, "cgroup2", root)
        system.member(f"0::{path}")
    else:
        system.mount(point, "cgroup", root, "rw,memory")
        system.member(f"9:memory:{path}")
    bounds = []
    for folder, group in zip(folders, chain, strict=True):
        if version == 2:
            limit = "max" if group.limit is None else group.limit
            system.group(folder, limit, group.used, group.cache)
            system.group(f"{folder}/zz", neighbour, 0)
            file = f"{folder}/memory.max"
        else:
            limit = V1_NO_LIMIT if group.limit is None else group.limit
            system.old_group(folder, limit, group.used, group.cache)
            system.old_group(f"{folder}/zz", neighbour, 0)
            file = f"{folder}/memory.limit_in_bytes"
        if group.limit is not None:
            used = max(0, group.used - group.cache)
            bounds.append((file, group.limit, max(0, group.limit - used)))
    return bounds


@settings(max_examples=200, deadline=None)
@given(
    GROUPS, st.sampled_from([1, 2]), VIEWS, SIZES, st.integers(0, 600 * MIB), st.integers(1, 16),
    st.none() | SIZES, st.none() | SIZES,
)  # fmt: skip
def test_f31_the_budget_is_the_tightest_of_all_limits(
    chain: list[OneGroup], version: int, view: str, neighbour: int, available_kib: int,
    ranks: int, reserve: int | None, memory_limit: int | None,
) -> None:  # fmt: skip
    folder = Path(tempfile.mkdtemp())
    try:
        system = FakeSystem(folder)
        available = available_kib << 10
        total = 600 * GIB
        system.meminfo(total, available)
        bounds = build(system, chain, version, view, neighbour)
        bounds += [("/proc/meminfo (MemAvailable)", total, available)]
        bounds += [("/proc/meminfo (MemTotal)", total, total)]
        limits = read_limits(folder)
        assert sorted(limits.memory, key=str) == sorted(
            (MemoryLimit(*bound) for bound in bounds), key=str
        )
        room = budget(limits, ranks, reserve, memory_limit)
        if memory_limit is None:
            left = {
                file: max(
                    0, (free - (default_reserve(full) if reserve is None else reserve)) // ranks
                )
                for file, full, free in bounds
            }
            assert room.allowed == min(left.values())
            assert left[room.source] == room.allowed
        else:
            assert room.source == "memory_limit"
            assert room.allowed == max(0, memory_limit - (reserve or 0)) // ranks
        assert room.local_ranks == ranks
    finally:
        shutil.rmtree(folder)


LIMITS = st.builds(
    lambda source, total, used: MemoryLimit(source, total, max(0, total - used)),
    st.sampled_from("abc"), SIZES, SIZES,
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(LIMITS, max_size=4), st.lists(LIMITS, max_size=2), st.integers(1, 9), SIZES)
def test_ranks_that_come_one_after_the_other_get_the_same(
    memory: list[MemoryLimit], space: list[MemoryLimit], ranks: int, reserve: int
) -> None:
    """Each takes all it may, and what it took is in use when the next one looks."""
    limits = MemoryLimits(tuple(memory), tuple(space))
    first = budget(limits, ranks, reserve)
    if not memory and not space:
        assert first.source == "no limit was found" and first.allowed == 1 << 62
        return
    taken = 0
    for rank in range(ranks):
        now = MemoryLimits(
            tuple(MemoryLimit(e.source, e.total, e.available - taken) for e in memory),
            tuple(MemoryLimit(e.source, e.total, e.available - taken) for e in space),
        )
        room = budget(now, ranks, reserve, first_look=first.look if rank else None)
        assert room.allowed == first.allowed
        taken += room.allowed
    assert all(taken <= max(0, e.available - reserve) for e in memory)
    assert all(taken <= e.available for e in space)


@settings(max_examples=200, deadline=None)
@given(st.lists(LIMITS, min_size=1, max_size=4), SIZES, st.lists(st.integers(1, 8), max_size=5))
def test_pools_of_one_process_never_take_more_than_there_is(
    memory: list[MemoryLimit], reserve: int, parts: list[int]
) -> None:
    """Whether the memory of those before is in use yet or not."""
    held = used = 0
    left = min(max(0, e.available - reserve) for e in memory)
    for turn, part in enumerate(parts):
        now = [MemoryLimit(e.source, e.total, e.available - used) for e in memory]
        room = budget(MemoryLimits(tuple(now)), 1, reserve, held=held, pending=held - used)
        assert room.allowed == left - held
        held += room.allowed // part
        used = held if turn % 2 else used
    assert held <= left


@given(SIZES)
def test_the_default_reserve(total: int) -> None:
    kept = default_reserve(total)
    assert 0 <= kept <= total // 8 and kept <= 16 * GIB
    if total >= 8 * GIB:
        assert kept >= GIB and kept == min(max(GIB, total // 20), 16 * GIB)


def test_a_share_is_less_what_the_process_holds() -> None:
    """Without a first look, too: what it holds is in use, and part of what is divided."""
    now = MemoryLimits((MemoryLimit("group", 8 * GIB, 4608 * MIB),))  # 1.5 GiB of 6 are taken
    room = budget(now, 2, GIB, held=1536 * MIB)
    assert (room.allowed, room.divided, room.held) == (GIB, 5 * GIB, 1536 * MIB)
    assert budget(now, 1, GIB, held=1536 * MIB).allowed == 3584 * MIB
