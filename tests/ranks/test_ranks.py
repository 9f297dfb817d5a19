"""2 and 4 processes with torch.distributed: the same calls, uneven copies, one set of decisions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rank_plans import PLANS, own_host_pages, plan_for

pytest.importorskip("torch")

HERE = Path(__file__).parent
ALIKE = ("digests", "answers", "taken", "collectives", "drain_collectives", "host_pages", "stats")
TOGETHER = [name for name, plan in PLANS.items() if plan.unbounded is None]


@pytest.fixture(scope="module", params=[2, 4], ids=["2 ranks", "4 ranks"])
def notes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    """What each rank noted, by plan."""
    meeting = str(tmp_path_factory.mktemp("ranks") / "meeting")
    script, ranks = str(HERE / "torch_rank.py"), request.param
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    processes = [
        subprocess.Popen(
            [sys.executable, script, str(rank), str(ranks), meeting],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        )
        for rank in range(ranks)
    ]
    try:
        outputs = [process.communicate(timeout=100) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, (_, errors) in zip(processes, outputs, strict=True):
        assert process.returncode == 0, errors[-3000:]
    return [json.loads(text.strip().splitlines()[-1]) for text, _ in outputs]


@pytest.mark.parametrize("plan", TOGETHER)
def test_f17_ranks_hold_the_same_tree_after_every_step(notes: list[dict], plan: str) -> None:
    """Uneven host room (rank 1 has a page less than rank 0), uneven copies, copies that fail."""
    first = notes[0][plan]
    steps = plan_for(plan, len(notes)).steps
    assert len(first["digests"]) == steps + 1  # and one at the end
    assert len(set(first["digests"])) > steps / 2
    for name in ALIKE:
        for rank, other in enumerate(notes):
            assert other[plan][name] == first[name], (rank, name)


@pytest.mark.parametrize("plan", TOGETHER)
def test_f17_one_collective_a_step_and_none_without_copies(notes: list[dict], plan: str) -> None:
    first = notes[0][plan]
    assert set(first["collectives"]) == {0, 1}
    assert first["idle_collectives"] == 0


@pytest.mark.parametrize("plan", TOGETHER)
def test_f17_nothing_is_left_at_the_end(notes: list[dict], plan: str) -> None:
    assert [rank[plan]["left"] for rank in notes] == [[0, 0, 0]] * len(notes)


@pytest.mark.parametrize("plan", TOGETHER)
def test_copies_are_uneven(notes: list[dict], plan: str) -> None:
    """The other tests would show nothing otherwise: ranks could have taken in different copies."""
    ready = [rank[plan]["ready"] for rank in notes]
    uneven = sum(len({tuple(numbers) for numbers in step}) > 1 for step in zip(*ready, strict=True))
    first = notes[0][plan]
    assert uneven > 10
    assert first["loaded_tokens"] > 0 or plan != "uneven"  # the longest one
    assert sum(first["taken"]) > 0


@pytest.mark.parametrize("plan", ["failing", "failing everywhere", "write back"])
def test_a_copy_that_fails_on_one_rank_fails_on_all(notes: list[dict], plan: str) -> None:
    failures = {(rank[plan]["failed_loads"], rank[plan]["failed_saves"]) for rank in notes}
    assert len(failures) == 1
    assert sum(failures.pop()) > 0
    armed = [rank[plan]["own_failures"] > 0 for rank in notes]
    assert armed == [rank in PLANS[plan].fail for rank in range(len(notes))]


def test_ranks_use_the_host_room_of_the_smallest(notes: list[dict]) -> None:
    rooms = [own_host_pages(rank) for rank in range(len(notes))]
    assert len(set(rooms)) == len(rooms)
    assert {rank["uneven"]["host_pages"] for rank in notes} == {min(rooms)}


def test_a_rank_that_polls_on_its_own_is_seen(notes: list[dict]) -> None:
    """The check can fail: where one rank takes in what it likes, digests part."""
    alone, *others = [rank["unbounded"]["digests"] for rank in notes]
    assert all(other != alone for other in others)
