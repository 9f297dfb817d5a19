"""Bytes that come back wrong must be noticed, however little attention notices them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from click.testing import CliRunner

from hicache_nsa import HiCache
from hicache_nsa.cache import inserting, saving
from hicache_nsa.cli.app import hicache
from hicache_nsa.demo.runner import Demo

Bytes = npt.NDArray[np.uint8]
PageView = Callable[[str, int, int], Bytes]
Mutant = Callable[[PageView, list[int]], None]
PLACES = [(buffer, layer) for buffer in ("latent", "index_k") for layer in range(2)]
OPTIONS = "demo --questions 2 --shots 4 --tokenizer bytes --layers 2 --max-new-tokens 2"


def zero(view: PageView, pages: list[int]) -> None:
    for place in PLACES:
        view(*place, pages[1])[:] = 0


def swap(view: PageView, pages: list[int]) -> None:
    for place in PLACES:
        one, other = view(*place, pages[1]), view(*place, pages[2])
        one[:], other[:] = other.copy(), one.copy()


def shift_by_a_byte(view: PageView, pages: list[int]) -> None:
    for place in PLACES:
        page = view(*place, pages[0])
        page[:] = np.roll(page, 1)


def halve(view: PageView, pages: list[int]) -> None:
    for place in PLACES:
        page = view(*place, pages[-1])
        page[len(page) // 2 :] = 0


def lose_the_index_keys_of_one_layer(view: PageView, pages: list[int]) -> None:
    view("index_k", 1, pages[0])[:] = 0


def flip_one_bit(view: PageView, pages: list[int]) -> None:
    view("latent", 1, pages[2])[17] ^= 1


MUTANTS: list[Mutant] = [
    *(zero, swap, shift_by_a_byte, halve),
    *(lose_the_index_keys_of_one_layer, flip_one_bit),
]


def run_demo(monkeypatch: pytest.MonkeyPatch, mutant: Mutant | None) -> tuple[int, str]:
    """Exit code and output of the command with the first prompt's host pages changed."""
    original = Demo.run

    def run(demo: Demo, step: Callable[[str], None], **options: object) -> object:
        def corrupt(cache: HiCache) -> None:
            match = cache.match_prefix(demo.prompts[0], count=False)
            assert match.device_tokens == 0
            assert len(match.host_pages) > 4
            if mutant is not None:
                mutant(cache.host_pool.page_view, match.host_pages.tolist())

        return original(demo, step, corrupt, **options)

    monkeypatch.setattr(Demo, "run", run)
    outcome = CliRunner().invoke(hicache, OPTIONS.split(), catch_exceptions=False)
    return outcome.exit_code, outcome.output


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_mutant_is_noticed(monkeypatch: pytest.MonkeyPatch, mutant: Mutant) -> None:
    code, output = run_demo(monkeypatch, mutant)
    assert code == 1
    assert "BYTES DIFFER" in output


def run_with_saves(monkeypatch: pytest.MonkeyPatch, save: Callable[..., None]) -> tuple[int, str]:
    """Exit code and output of the command where inserts call ``save``."""
    for module in (saving, inserting):
        if hasattr(module, "start_save"):
            monkeypatch.setattr(module, "start_save", save)
    outcome = CliRunner().invoke(hicache, OPTIONS.split(), catch_exceptions=False)
    return outcome.exit_code, outcome.output


def test_a_host_tier_that_saves_nothing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    code, output = run_with_saves(monkeypatch, lambda *arguments, **options: None)
    assert code == 1
    assert "NOTHING CAME BACK" in output
    assert "OUTPUTS DIFFER" not in output


def test_a_host_tier_that_saves_only_the_first_prompt_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original, calls = saving.start_save, 0

    def first_only(*arguments: Any, **options: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            original(*arguments, **options)

    code, output = run_with_saves(monkeypatch, first_only)
    assert calls > 1
    assert code == 1
    assert "ONLY A PART CAME BACK" in output


def test_without_a_mutant_all_is_well(monkeypatch: pytest.MonkeyPatch) -> None:
    code, output = run_demo(monkeypatch, None)
    assert code == 0
    assert "BYTES DIFFER" not in output
