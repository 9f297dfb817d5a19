"""Page hashes: BLAKE2b-128, chained, namespaced. The formula is checked against hashlib."""

from __future__ import annotations

import hashlib
import itertools
import os
import subprocess
import sys

import numpy as np
import pytest

from hicache_nsa import _core, formats, page_hashes
from hicache_nsa.tokens import namespace

FMT = formats.dsa(2, page_size=4)


def test_formula() -> None:
    tokens = np.arange(11, dtype=np.int64) * 12345
    seed = _core.namespace_seed(FMT.fingerprint.encode(), namespace("salt"))
    expected, previous = [], bytes(seed)
    for page in range(2):
        chunk = tokens[page * 4 : page * 4 + 4].astype("<i8").tobytes()
        previous = hashlib.blake2b(previous + chunk, digest_size=16).digest()
        expected.append(previous)
    got = page_hashes(tokens, FMT, extra_key="salt")
    assert got.shape == (2, 16) and got.dtype == np.uint8
    assert [bytes(row) for row in got] == expected


def test_namespaces_are_told_apart_by_type_and_length() -> None:
    keys = [None, "X", b"X", ("X",), ("ab", "c"), ("a", "bc"), "abc", ("abc",), 1, "1", -1,
            (1, 2), ((1,), 2), ("", "X"), ("X", ""), (None, "X"), ""]  # fmt: skip
    encoded = [namespace(key) for key in keys]
    assert len(set(encoded)) == len(keys)
    hashes = [bytes(page_hashes([1, 2, 3, 4], FMT, extra_key=key)[0]) for key in keys]
    assert len(set(hashes)) == len(keys)


@pytest.mark.parametrize("key", [1.5, True, ["a"], {"a": 1}, ("a", 1.0)])
def test_other_keys_are_refused(key) -> None:
    with pytest.raises(TypeError, match="extra_key"):
        namespace(key)


def test_format_is_part_of_the_hash() -> None:
    others = [
        formats.dsa(2, page_size=4, kv_dtype="bf16"),
        formats.dsa(3, page_size=4),
        formats.dsa(2, page_size=4, index_layers=(0,)),
        formats.mla(2, kv_dtype="fp8_ds_mla", page_size=4),
    ]
    hashes = [bytes(page_hashes([1, 2, 3, 4], f)[0]) for f in (FMT, *others)]
    for a, b in itertools.combinations(hashes, 2):
        assert a != b


def test_same_in_another_process_with_another_hash_seed() -> None:
    code = (
        "from hicache_nsa import page_hashes, formats;"
        "print(page_hashes(range(8), formats.dsa(2, page_size=4), extra_key='k').tobytes().hex())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True, text=True, check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }  # fmt: skip
    assert outputs == {page_hashes(range(8), FMT, extra_key="k").tobytes().hex()}
