"""Pools in a real control group with a limit: what is allowed can be used, more is refused."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from processes import child

from hicache_nsa.memory_budget.groups import groups_of

MIB = 1 << 20
PAGE = 64 << 10


class RealGroup:
    """A group below this process's own, gone when the test is over."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def limit(self, nbytes: int) -> None:
        (self.folder / "memory.limit_in_bytes").write_text(str(nbytes), encoding="ascii")

    def kills(self) -> int:
        text = (self.folder / "memory.oom_control").read_text(encoding="ascii")
        return int(dict(line.split() for line in text.splitlines()).get("oom_kill", 0))

    def remove(self) -> None:
        for _ in range(200):  # a process that has just ended may still count
            with suppress(OSError):
                self.folder.rmdir()
                return
            time.sleep(0.02)
        raise AssertionError(f"{self.folder} cannot be removed")


@pytest.fixture
def group() -> Iterator[RealGroup]:
    own = [each for each in groups_of(Path("/"), "self", "memory") if each.own]
    old = [Path(each.folder) for each in own if each.version == 1]
    if not old:
        pytest.skip("no memory controller of cgroup v1 here")
    if not os.access(old[0], os.W_OK):
        pytest.skip(f"{old[0]} may not be written: only root makes groups")
    try:
        made = RealGroup(old[0] / f"hicache-nsa-test-{os.getpid()}")
    except OSError as error:
        pytest.skip(f"no group can be made: {error}")
    try:
        yield made
    finally:
        made.remove()


@pytest.mark.parametrize("reserve", ["default", str(16 * MIB)])
def test_f31_the_largest_pool_is_usable_and_a_larger_one_refused(
    group: RealGroup, reserve: str
) -> None:
    group.limit(256 * MIB)
    with child("fill", reserve, TEST_GROUP=str(group.folder)) as run:
        facts = run.hear()
        assert run.end() == 0
    assert facts["intact"] and group.kills() == 0
    assert 100 * MIB < facts["nbytes"] < 256 * MIB - (32 if reserve == "default" else 16) * MIB
    assert f"by {group.folder}/memory.limit_in_bytes: 256.00 MiB in all" in facts["refusal"]
    assert "ask for fewer" in facts["refusal"]


def test_f31_a_limit_on_the_group_above_counts(group: RealGroup) -> None:
    group.limit(192 * MIB)
    inner = RealGroup(group.folder / "inner")
    try:
        with child("fill", "default", TEST_GROUP=str(inner.folder)) as run:
            facts = run.hear()
            assert run.end() == 0
        assert facts["intact"] and group.kills() == 0
        assert f"by {group.folder}/memory.limit_in_bytes: 192.00 MiB" in facts["refusal"]
    finally:
        inner.remove()


def test_f31_two_ranks_one_after_the_other_fill_the_group(group: RealGroup) -> None:
    """The second one looks when the first one's pool is in use, and gets the same share."""
    group.limit(320 * MIB)
    environment = {"TEST_GROUP": str(group.folder), "LOCAL_WORLD_SIZE": "2"}
    with child("share", **environment) as first, child("share", **environment) as second:
        for rank in (first, second):
            rank.say()
        fits = min(rank.hear()["fits"] for rank in (first, second)) - 128  # 8 MiB less
        for rank in (first, second):
            rank.say(fits)
            facts = rank.hear()
            assert facts.get("intact"), facts
            assert "divided by 2 local ranks (LOCAL_WORLD_SIZE=2)" in facts["more"]
        for rank in (first, second):
            rank.say()
            assert rank.end() == 0
    assert group.kills() == 0
    assert 2 * fits * PAGE > 130 * MIB
