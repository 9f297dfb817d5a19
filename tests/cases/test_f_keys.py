"""F11, F16: namespaces and hashes: nobody meets anybody else's KV."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from case_cache import FORMAT, CaseCache

import hicache_nsa as hc

NAMESPACES = {
    "none": None,
    "salt": ("salt", "X"),
    "lora": ("lora", "X"),
    "salt ab, key c": (("salt", "ab"), ("key", "c")),
    "salt a, key bc": (("salt", "a"), ("key", "bc")),
    "key abc": ("key", "abc"),
}
TOKENS = list(range(1, 9))


def test_f11_namespaces_share_nothing():
    """Six namespaces, the same 8 tokens, P=4."""
    with CaseCache(48, 48) as c:
        c.insert(TOKENS, c.compute(TOKENS))
        for name, key in NAMESPACES.items():
            assert c.hit(TOKENS, extra_key=key) == ((8, 0) if name == "none" else (0, 0))
        for name, key in NAMESPACES.items():
            if name != "none":
                assert c.insert(TOKENS, c.compute(TOKENS), extra_key=key).duplicate_tokens == 0
        assert c.device.free == 0 and len(c.tree.roots) == 6
        pages = [c.match_prefix(TOKENS, extra_key=key).device_pages for key in NAMESPACES.values()]
        assert len({int(page) for each in pages for page in each}) == 12
        assert all(c.hit(TOKENS, extra_key=key) == (8, 0) for key in NAMESPACES.values())
        assert c.drain(30) and c.evict_device(48) == 48
        assert all(c.hit(TOKENS, extra_key=key) == (0, 8) for key in NAMESPACES.values())


def test_f11_hashes_of_namespaces_differ_page_by_page():
    hashes = [hc.page_hashes(TOKENS, FORMAT, extra_key=key) for key in NAMESPACES.values()]
    for page in range(2):
        assert len({each[page].tobytes() for each in hashes}) == 6


@pytest.mark.parametrize(
    "one, other",
    [("1", 1), ("1", b"1"), (1, (1,)), (("a", "b"), "ab"), (("a", ("b",)), ("a", "b")), ("", None),
     (("a", None), ("a",)), (-1, 1)],
)  # fmt: skip
def test_f11_keys_of_other_types_or_shapes_are_other_keys(one, other):
    with CaseCache(32, 0) as c:
        c.insert(TOKENS, c.compute(TOKENS), extra_key=one)
        assert c.hit(TOKENS, extra_key=other) == (0, 0)
        assert c.hit(TOKENS, extra_key=one) == (8, 0)
    assert not np.array_equal(
        hc.page_hashes(TOKENS, FORMAT, extra_key=one),
        hc.page_hashes(TOKENS, FORMAT, extra_key=other),
    )


def test_f11_the_hash_without_a_namespace_is_stable_across_versions():
    """A changed hash makes every stored page unreachable: then this constant has to change too."""
    fmt = hc.formats.dsa(61)
    first = hc.page_hashes(range(128), fmt)
    assert [row.tobytes().hex() for row in first] == STABLE


STABLE = ["44a9c1a82990bf5ffbbbaa5eea162482", "f42a8b84289c5cbf14b45fb7b7c7d435"]

INPUTS = {
    "list": list,
    "tuple": tuple,
    "range": lambda ids: range(ids[0], ids[-1] + 1),
    "int32": lambda ids: np.array(ids, np.int32),
    "int64": lambda ids: np.array(ids, np.int64),
    "uint16": lambda ids: np.array(ids, np.uint16),
    "big-endian": lambda ids: np.array(ids, ">i8"),
    "strided": lambda ids: np.repeat(np.array(ids), 2)[::2],
    "numpy ints": lambda ids: [np.int32(i) for i in ids],
}


@pytest.mark.parametrize("make", INPUTS.values(), ids=INPUTS)
def test_f16_every_kind_of_input_has_the_same_hash_and_the_same_hits(make):
    ids = list(range(65, 81))
    expected = hc.page_hashes(ids, FORMAT)
    assert expected.shape == (4, 16) and expected.dtype == np.uint8  # 128 bits
    assert np.array_equal(hc.page_hashes(make(ids), FORMAT), expected)
    with CaseCache(16, 0) as c:
        c.put(ids)
        assert c.hit(ids) == (16, 0)
        assert c.match_prefix(make(ids)).device_tokens == 16


def test_f16_torch_tensors_have_the_same_hash():
    torch = pytest.importorskip("torch")
    ids = list(range(65, 81))
    for dtype in (torch.int64, torch.int32):
        given = torch.tensor(ids, dtype=dtype)
        assert np.array_equal(hc.page_hashes(given, FORMAT), hc.page_hashes(ids, FORMAT))


def test_f16_hashes_do_not_depend_on_the_process():
    code = (
        "import hicache_nsa as hc; fmt = hc.formats.dsa(3, page_size=4);"
        "print(hc.page_hashes([65, 1, 2, 2**31 - 1] * 2, fmt, extra_key='x').tobytes().hex())"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1


PAIRS = [
    ([65, 66, 67, 68], [321, 322, 323, 324]),  # equal in their low 8 bits
    ([1, 23, 4, 5], [12, 3, 4, 5]),  # equal as digits side by side
    ([0, 0, 0, 0], [0, 0, 0, 2**31 - 1]),
    ([2**31 - 1] * 4, [2**31 - 2] * 4),
    ([1, 2, 3, 4], [1, 2, 3, 4 + 2**32]),
    ([1, 2, 3, 4], [4, 3, 2, 1]),
    ([-1, 0, 0, 0], [2**32 - 1, 0, 0, 0]),
]


@pytest.mark.parametrize("one, other", PAIRS)
def test_f16_similar_pages_are_told_apart(one, other):
    first, second = hc.page_hashes(one, FORMAT)[0], hc.page_hashes(other, FORMAT)[0]
    assert not np.array_equal(first, second)
    with CaseCache(16, 0) as c:
        c.put(one)
        assert c.hit(other) == (0, 0) and c.hit(one) == (4, 0)


def test_f16_a_hash_names_everything_before_the_page_and_the_format():
    same_tail = [[1, 2, 3, 4, 9, 9, 9, 9], [1, 2, 3, 5, 9, 9, 9, 9]]
    first, second = (hc.page_hashes(tokens, FORMAT) for tokens in same_tail)
    assert not np.array_equal(first[1], second[1])
    other = hc.formats.dsa(3, page_size=4, kv_dtype="bf16")
    assert not np.array_equal(hc.page_hashes(same_tail[0], other)[0], first[0])
