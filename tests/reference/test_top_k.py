"""Selection of the top k tokens."""

from __future__ import annotations

import pytest
import torch

from hicache_nsa.reference.indexer import select_top_k

INF = float("inf")


def brute_force(row: list[float], k: int) -> list[int]:
    """The k best, a lower position before a higher one of the same score."""
    order = sorted(range(len(row)), key=lambda position: (-row[position], position))
    return sorted(order[:k])


@pytest.mark.parametrize("levels", [2, 5, 1000])
@pytest.mark.parametrize("k", [1, 7, 39])
def test_ties_go_to_the_lower_position(levels: int, k: int) -> None:
    generator = torch.Generator().manual_seed(levels)
    scores = torch.randint(0, levels, (16, 40), generator=generator).float()
    expected = [brute_force(row, k) for row in scores.tolist()]
    assert select_top_k(scores, k).tolist() == expected


def test_all_scores_equal_selects_the_first() -> None:
    assert select_top_k(torch.zeros(2, 10), 3).tolist() == [[0, 1, 2]] * 2


def test_zero_and_minus_zero_are_a_tie() -> None:
    assert select_top_k(torch.tensor([[-0.0, 0.0, -0.0]]), 2).tolist() == [[0, 1]]


def test_short_rows_are_filled_with_masked_tokens() -> None:
    scores = torch.tensor([[1.0, 2.0, -INF, -INF, -INF], [1.0, 5.0, 3.0, 4.0, 2.0]])
    assert select_top_k(scores, 3).tolist() == [[0, 1, 2], [1, 2, 3]]


def test_as_many_tokens_as_k_selects_all() -> None:
    assert select_top_k(torch.randn(2, 4), 4).tolist() == [[0, 1, 2, 3]] * 2
    assert select_top_k(torch.randn(2, 4), 9).tolist() == [[0, 1, 2, 3]] * 2
