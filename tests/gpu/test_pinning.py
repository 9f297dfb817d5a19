"""F29, F30: errors when host memory is pinned, and memory the GPU cannot use as the host does.

The scenarios stand in ``scenarios.py`` and run in processes of their own.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from apart import Apart, driver_faults

PLAIN = (
    "refused_chunks",
    "mixed_pools",
    "pinned_by_somebody",
    "partly_pinned_in_front",
    "partly_pinned_inside",
    "first_engine_closes_first",
    "full_queues",
)
FAULTS = {
    "no_host_pointers": {"HICACHE_TEST_NO_HOST_POINTERS": "1"},
    "pin_limit": {"HICACHE_TEST_PIN_LIMIT": str(64 << 20)},
    "refused_in_the_background": {"HICACHE_TEST_PIN_LIMIT": str(2 * 1_380_352)},  # two chunks
}


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apart]:
    scenarios = Apart()
    for scenario in PLAIN:
        scenarios.start(scenario)
    library = driver_faults(tmp_path_factory.mktemp("faults"))
    for scenario, environment in FAULTS.items() if library is not None else ():
        scenarios.start(scenario, LD_PRELOAD=str(library), **environment)
    yield scenarios
    scenarios.close()


def test_f29_a_chunk_that_cannot_be_pinned_is_told_and_all_are_given_back(apart) -> None:
    apart.passes("refused_chunks")


def test_f29_copies_of_a_pool_that_is_pinned_in_part_are_right(apart) -> None:
    apart.passes("mixed_pools")


def test_f29_a_chunk_that_is_refused_while_a_cache_serves(apart) -> None:
    apart.passes("refused_in_the_background")


def test_f29_what_somebody_else_pinned_is_used_and_left_alone(apart) -> None:
    apart.passes("pinned_by_somebody")


@pytest.mark.parametrize("where", ["in_front", "inside"])
def test_f29_a_chunk_that_is_pinned_in_part_is_not_taken_for_pinned(apart, where) -> None:
    apart.passes(f"partly_pinned_{where}")


def test_f29_the_engine_that_pinned_a_pool_may_be_closed_first(apart) -> None:
    apart.passes("first_engine_closes_first")


def test_f30_host_addresses_that_the_gpu_cannot_use(apart) -> None:
    apart.passes("no_host_pointers")


def test_f30_less_may_be_pinned_than_is_asked_for(apart) -> None:
    apart.passes("pin_limit")


def test_queues_full_of_tiles_do_not_stop_the_copies_they_wait_for(apart) -> None:
    apart.passes("full_queues")
