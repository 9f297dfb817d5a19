"""Small models for the tests of the reference model, and the agreement figures they report."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from hicache_nsa.reference import DsaConfig, ReferenceModel, random_weights

FIGURES = pytest.StashKey[dict[str, Any]]()


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Threads gain nothing on matrices this small, and wait for each other on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def make_model() -> Callable[..., ReferenceModel]:
    """A small seeded model with production row sizes; keywords replace config fields."""

    def make(**changes: Any) -> ReferenceModel:
        config = DsaConfig.demo(
            vocab_size=300,
            hidden_size=64,
            num_layers=3,
            num_heads=2,
            index_num_heads=8,
            index_topk=48,
        )
        config = dataclasses.replace(config, **changes)
        return ReferenceModel(config, random_weights(config, seed=7))

    return make


@pytest.fixture
def make_prompt() -> Callable[..., Any]:
    """A seeded random prompt, int64 [length]."""

    def make(length: int, seed: int = 0, vocab_size: int = 300) -> Any:
        generator = torch.Generator().manual_seed(seed)
        return torch.randint(0, vocab_size, (length,), generator=generator)

    return make


@pytest.fixture
def figures(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Figures printed as one line of JSON at the end of the run."""
    return request.config.stash.setdefault(FIGURES, {})


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    found = config.stash.get(FIGURES, {})
    if found:
        terminalreporter.section("reference model against transformers")
        terminalreporter.write_line(json.dumps(found))
