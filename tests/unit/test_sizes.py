"""Sizes in bytes, decimal and binary."""

from __future__ import annotations

import pytest

from hicache_nsa.sizes import format_size, parse_size


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (0, 0), (123, 123), ("0", 0), ("17", 17), ("17B", 17), ("50GiB", 50 * 1024**3),
        ("50GB", 50 * 10**9), ("512 MiB", 512 * 1024**2), ("1.5kb", 1500), (" 2TiB ", 2 * 1024**4),
    ],
)  # fmt: skip
def test_sizes(text, value: int) -> None:
    assert parse_size(text) == value


@pytest.mark.parametrize("text", ["", "GiB", "-1GiB", "5 pounds", "1e9", "5Gi", "0x10", "1 2GB"])
def test_what_does_not_parse(text: str) -> None:
    with pytest.raises(ValueError, match="host_size"):
        parse_size(text, "host_size")


def test_other_types() -> None:
    with pytest.raises(ValueError, match="-5"):
        parse_size(-5)
    for value in (1.5, True, None, [1]):
        with pytest.raises(TypeError):
            parse_size(value)


def test_format_size() -> None:
    assert format_size(3_076_352) == "2.93 MiB"
    assert format_size(12) == "12 B"
