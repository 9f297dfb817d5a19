"""A model of each kind and a cache for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import small_models
import torch
from transformers import PreTrainedModel

from hicache_nsa.integrations.transformers import PrefixCache


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Threads gain nothing on matrices this small, and wait for each other on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(params=list(small_models.MAKERS))
def model(request: pytest.FixtureRequest) -> PreTrainedModel:
    return small_models.make(request.param)


@pytest.fixture
def make_cache() -> Iterator[Callable[..., PrefixCache]]:
    """Caches that are checked and closed at the end of the test."""
    made: list[PrefixCache] = []

    def make(model: PreTrainedModel, **options: Any) -> PrefixCache:
        sizes = {"page_size": small_models.PAGE, "host_pages": 64, "device_pages": 64}
        made.append(PrefixCache(model, **{**sizes, **options}))
        return made[-1]

    yield make
    for cache in made:
        cache.check()
        cache.close()


@pytest.fixture
def cache(model: PreTrainedModel, make_cache: Callable[..., PrefixCache]) -> PrefixCache:
    return make_cache(model)
