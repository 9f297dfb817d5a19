"""Constant labels of a cache's series are checked when it is added."""

from __future__ import annotations

import pytest

from hicache_nsa.metrics.labels import RESERVED, checked_labels, require_distinct


def test_labels_become_text() -> None:
    assert checked_labels(None) == checked_labels({}) == {}
    assert checked_labels({"rank": 3, "model": "glm-5"}) == {"rank": "3", "model": "glm-5"}


def test_names_of_the_rows_own_labels_are_reserved() -> None:
    own = "source reason buffer direction result way tier state version format device layout"
    assert set(RESERVED) == {*own.split(), "le", "quantile"}


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_a_reserved_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}' is a label of the metrics themselves"):
        checked_labels({name: "x"})


@pytest.mark.parametrize("name", ["", "0rank", "my-rank", "ränk", "a b", "__rank", "rank\n"])
def test_what_prometheus_would_not_take_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is no name of a label"):
        checked_labels({name: "x"})


def test_an_empty_value_is_no_label() -> None:
    with pytest.raises(ValueError, match="'rank' has no value"):
        checked_labels({"rank": ""})


def test_what_utf_8_has_no_bytes_for_is_refused() -> None:
    """It would fail each scrape, of all caches."""
    with pytest.raises(ValueError, match="'model' can't be written in UTF-8"):
        checked_labels({"model": "glm\ud800"})
    assert checked_labels({"model": 'glm\n"\\ü'})


@pytest.mark.parametrize("labels", ["rank", ["rank"], 5, {"rank": None}, {"rank": 0.5},
                                    {"rank": True}, {3: "x"}, {"rank": b"0"}])  # fmt: skip
def test_other_types_are_refused_and_an_example_is_given(labels) -> None:
    with pytest.raises(TypeError, match=r'labels=\{"rank": "0"\}'):
        checked_labels(labels)


def test_two_caches_have_the_same_names_and_other_values() -> None:
    require_distinct({"rank": "1"}, [])
    require_distinct({"rank": "1"}, [{"rank": "0"}, {"rank": "2"}])
    with pytest.raises(ValueError, match=r"'rank': '1'.* already"):
        require_distinct({"rank": "1"}, [{"rank": "0"}, {"rank": "1"}])
    with pytest.raises(ValueError, match="already"):
        require_distinct({}, [{}])
    with pytest.raises(ValueError, match=r"\['model'\], the one before has \['rank'\]"):
        require_distinct({"model": "a"}, [{"rank": "0"}])
