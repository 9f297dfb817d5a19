from __future__ import annotations

import random

import pytest

from hicache_nsa.timeline.rows import nested_rows

Span = tuple[int, int]


def times(span: Span) -> tuple[int, int]:
    return span


def test_spans_one_after_the_other_share_a_row() -> None:
    assert nested_rows([(0, 2), (2, 5), (7, 9)], times) == [[(0, 2), (2, 5), (7, 9)]]


def test_a_span_inside_another_one_shares_its_row_unless_told_otherwise() -> None:
    spans = [(1, 3), (0, 4)]
    assert nested_rows(spans, times) == [[(0, 4), (1, 3)]]
    assert nested_rows(spans, times, nest=False) == [[(0, 4)], [(1, 3)]]


def test_spans_that_overlap_in_part_do_not() -> None:
    assert nested_rows([(0, 4), (2, 6), (5, 7)], times) == [[(0, 4), (5, 7)], [(2, 6)]]


def test_of_equal_times_the_later_recorded_one_is_outside() -> None:
    spans = [("inner", 0, 4), ("outer", 0, 4)]
    assert nested_rows(spans, lambda s: (s[1], s[2])) == [[spans[1], spans[0]]]


@pytest.mark.parametrize("nest", [True, False])
def test_rows_of_random_spans_hold_each_once_and_never_overlap_in_part(nest: bool) -> None:
    rng = random.Random(5)
    for _ in range(200):
        spans = []
        for _ in range(rng.randrange(12)):
            begin = rng.randrange(20)
            spans.append((begin, begin + rng.randrange(12)))
        rows = nested_rows(spans, times, nest)
        assert sorted(s for row in rows for s in row) == sorted(spans)
        for row in rows:
            for i, (begin, end) in enumerate(row):
                for other_begin, other_end in row[i + 1 :]:
                    apart = other_begin >= end or other_end <= begin
                    inside = begin <= other_begin and other_end <= end
                    assert apart or (nest and inside), (row, spans)
