"""Tokens and page ids in every form callers hand them in."""

from __future__ import annotations

import array
import gc

import numpy as np
import pytest

from hicache_nsa._core import TokenSpan
from hicache_nsa.tokens import page_ids, token_span

EXPECTED = [5, 0, 2**31 - 1, -7]


@pytest.mark.parametrize(
    "tokens",
    [
        EXPECTED,
        tuple(EXPECTED),
        array.array("q", EXPECTED),
        np.array(EXPECTED),
        np.array(EXPECTED, dtype=np.int32),
        np.repeat(np.array(EXPECTED), 2)[::2],
        np.array([EXPECTED, EXPECTED]).T[:, 0],
    ],
)
def test_integers_in_any_form(tokens) -> None:
    assert token_span(tokens).numpy().tolist() == EXPECTED


def test_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    for dtype in (torch.int64, torch.int32):
        assert token_span(torch.tensor(EXPECTED, dtype=dtype)).numpy().tolist() == EXPECTED


@pytest.mark.parametrize(
    ("tokens", "error"),
    [
        ([1.0], TypeError), (["1"], TypeError), ("123", TypeError), (b"12", TypeError),
        ([1, True], TypeError), (np.array([True]), TypeError), (np.zeros(3), TypeError),
        (None, TypeError), (7, ValueError), ([[1]], ValueError), (np.eye(2, dtype=int), ValueError),
        ([2**70], ValueError), (np.array([2**63], dtype=np.uint64), ValueError),
        ({1: 2}, TypeError), ([1, None], TypeError),
    ],
)  # fmt: skip
def test_what_is_refused(tokens, error) -> None:
    with pytest.raises(error, match="tokens"):
        token_span(tokens)


def test_empty() -> None:
    for empty in ([], (), np.empty(0, dtype=np.int64)):
        assert len(token_span(empty)) == 0


@pytest.mark.parametrize("bad", [-1, 4, 2**31, 2**40, -(2**62)])
def test_page_ids_outside_the_pool(bad: int) -> None:
    with pytest.raises(ValueError, match=f"page id {bad} is outside"):
        page_ids([0, bad, 1], 4)


def test_span_compares_and_hashes_by_content() -> None:
    a = TokenSpan(np.arange(200))
    b = TokenSpan(np.arange(300)).slice(0, 200)
    assert a == b and hash(a) == hash(b)
    assert a != a.slice(1, 200) and a.slice(0, 64) != a.slice(1, 65)
    assert {a.slice(64, 128): 1}[b.slice(64, 128)] == 1
    assert a.common_prefix(b) == 200
    changed = np.arange(200)
    changed[131] = -1
    assert a.common_prefix(TokenSpan(changed)) == 131
    assert a.common_prefix(a.slice(100, 200), 100) == 100


def test_a_view_keeps_its_array_alive_and_a_copy_does_not() -> None:
    array_ = np.arange(1000)
    view, copy = TokenSpan(array_), TokenSpan(array_).slice(10, 20).copy()
    assert copy.buffer_tokens == 10 and view.slice(10, 20).buffer_tokens == 1000
    array_[10] = -1
    assert view.numpy()[10] == -1 and copy.numpy()[0] == 10
    del array_
    gc.collect()
    assert view.numpy()[999] == 999
