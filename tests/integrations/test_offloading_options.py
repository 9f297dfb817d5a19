"""Options of a host tier inside an engine: read, checked, turned into a number of chunks."""

from typing import Any

import pytest

from hicache_nsa.integrations.offloading.options import read_options

ENGINE = ("spec_name", "block_size")


def test_what_is_not_given_is_as_in_hicache() -> None:
    options = read_options({"spec_name": "X", "host_size": "1GiB"}, ENGINE)
    assert (options.host_size, options.host_pages) == (1 << 30, None)
    assert (options.layout, options.io_backend, options.eviction_policy) == (
        "page_first", "auto", "lru",
    )  # fmt: skip
    assert (options.spare, options.pin_memory, options.engine) == (0.0, "auto", {})


def test_what_is_given_is_kept() -> None:
    given = {
        "host_pages": 70, "layout": "layer_first", "io_backend": "direct", "spare": 0.02,
        "eviction_policy": "slru", "write_policy": "write_through", "pin_memory": False,
        "workers": 2, "staging_bytes": "64MiB", "verify": "sample", "local_ranks": 4,
        "memory_limit": "1TiB", "time_waits": False,
    }  # fmt: skip
    options = read_options(given, ENGINE)
    assert options.engine == {
        "workers": 2, "staging_bytes": 64 << 20, "verify": "sample", "time_waits": False,
    }  # fmt: skip
    assert options.memory == {"local_ranks": 4, "memory_limit": "1TiB"}
    assert {name: getattr(options, name) for name in given if hasattr(options, name)} == {
        name: value for name, value in given.items() if name not in options.engine | options.memory
    }


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"cpu_bytes_to_use": 1}, "unknown option cpu_bytes_to_use; known: host_size, host_pages"),
        ({"a": 1, "b": 2}, "unknown options a, b"),
        ({"link_curve": None}, "unknown option link_curve"),
        ({}, "exactly one of host_size and host_pages"),
        ({"host_size": 1, "host_pages": 1}, "exactly one of host_size and host_pages"),
        ({"host_size": "50 gigs"}, "host_size='50 gigs' is not a size"),
        ({"host_pages": 0}, "host_pages=0 is outside 1"),
        ({"host_pages": 1, "layout": "token_first"}, "layout='token_first' is unknown; known: lay"),
        ({"host_pages": 1, "verify": "some"}, "verify='some' is unknown; known: off, sample, all"),
        ({"host_pages": 1, "io_backend": "rdma"}, "io_backend='rdma' is unknown; known: auto"),
        ({"host_pages": 1, "eviction_policy": "arc"}, "eviction_policy='arc' is unknown; known: l"),
        ({"host_pages": 1, "write_policy": "write_back"}, "write_policy='write_back' is unknown"),
        ({"host_pages": 1, "spare": 0.7}, "spare=0.7 must be between 0 and 0.5"),
        ({"host_pages": 1, "memory_limit": "x"}, "memory_limit='x' is not a size"),
        ({"host_pages": 1, "workers": -1}, "workers=-1 must be 0 or more"),
        ({"host_pages": 1, "pin_memory": "yes"}, "pin_memory='yes' is unknown"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(given: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        read_options(given, ENGINE)


def test_f42_chunks_never_outgrow_the_size() -> None:
    page = 61 * (41_984 + 8_448)  # DeepSeek-V3.2, 64 tokens
    options = read_options({"host_size": "50GB"}, ENGINE)
    assert options.chunks(page, 1) == 50 * 10**9 // page == 16_253
    assert options.chunks(page, 4) == 16_253 // 4
    assert read_options({"host_pages": 10}, ENGINE).chunks(page, 4) == 2


@pytest.mark.parametrize("given", [{"host_size": 4095}, {"host_pages": 3}])
def test_a_tier_without_a_chunk_is_refused(given: dict[str, Any]) -> None:
    options = read_options(given, ENGINE)
    with pytest.raises(ValueError, match="a chunk takes 4; give at least host_size=4096"):
        options.chunks(1024, 4)
