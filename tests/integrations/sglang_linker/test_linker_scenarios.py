"""The scenarios without SGLang: every kind of pool, layout and draft, on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kv_pools import DEVICE_PAGES, DSATokenToKVPool, MHATokenToKVPool, MLATokenToKVPool
from linker_scenarios import SCENARIOS, longer_prompt, prefix_outlives_suffixes, warm_flush


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.__name__)
def test_scenario(scenario: Callable[[Any], None], make_server: Callable[..., Any]) -> None:
    scenario(make_server())


def test_a_prefix_outlives_what_is_below_it(make_server: Callable[..., Any]) -> None:
    prefix_outlives_suffixes(make_server())


@pytest.mark.parametrize("layout", ["layer_first", "page_first", "page_first_direct"])
@pytest.mark.parametrize(
    "pool",
    [
        lambda: DSATokenToKVPool(DEVICE_PAGES, 4, sharing=(1, 3)),
        lambda: DSATokenToKVPool(DEVICE_PAGES, row=576),
        lambda: MLATokenToKVPool(DEVICE_PAGES, page_size=16),
        lambda: MLATokenToKVPool(DEVICE_PAGES, page_size=1),
        lambda: MHATokenToKVPool(DEVICE_PAGES),
    ],
    ids=["dsa-shared-top-k", "dsa-576", "mla-16", "mla-1", "mha"],
)
def test_pools_and_layouts(
    pool: Callable[[], Any], layout: str, make_server: Callable[..., Any]
) -> None:
    server = make_server(pool(), layout=layout)
    warm_flush(server)


def test_f09_draft_pools_travel_with_the_target(make_server: Callable[..., Any]) -> None:
    drafts = (
        DSATokenToKVPool(DEVICE_PAGES, 1),
        DSATokenToKVPool(DEVICE_PAGES, 1, sharing=(0,)),  # with the target's top-k
        MLATokenToKVPool(DEVICE_PAGES, 1),
    )
    server = make_server(DSATokenToKVPool(DEVICE_PAGES, 3), drafts=drafts)
    names = [buffer.name for buffer in server.linker.engine.device_pool.format.buffers]
    ours = ["latent", "index_k"]
    assert names == [*ours, "draft0_latent", "draft0_index_k", "draft1_latent", "draft2_latent"]
    longer_prompt(server)


def test_fifo_eviction_is_an_option(make_server: Callable[..., Any]) -> None:
    server = make_server(eviction_policy="fifo")
    assert server.linker.stats().host.policy == "fifo"
    warm_flush(server)
