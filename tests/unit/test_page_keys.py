"""Page keys, against the same mix in Python; nodes keep the keys of their pages."""

from __future__ import annotations

import numpy as np
import pytest

from hicache_nsa._core import (
    TokenSpan,
    namespace_key,
    pack_tokens,
    packed_page_keys,
    page_keys,
)
from hicache_nsa.errors import InvariantError
from hicache_nsa.tokens import namespace
from hicache_nsa.tree import RadixTree

P = 4
MASK = (1 << 64) - 1
MIX = (
    0x6A09E667F3BCC908,
    0xBB67AE8584CAA73B,
    0x3C6EF372FE94F82B,
    0xA54FF53A5F1D36F1,
    0x510E527FADE682D1,
    0x9B05688C2B3E6C1F,
    0x1F83D9ABFB41BD6B,
    0x5BE0CD19137E2179,
)


def fold(a: int, b: int) -> int:
    product = (a & MASK) * (b & MASK)
    return (product ^ product >> 64) & MASK


def mix_words(words: list[int]) -> int:
    lanes = list(MIX[4:])
    whole = len(words) // 8 * 8
    for i in range(0, whole, 2):
        lane = i // 2 % 4
        lanes[lane] = fold(words[i] ^ MIX[lane], words[i + 1] ^ lanes[lane])
    for word in words[whole:]:
        lanes[0] = fold(word ^ MIX[0], lanes[0] ^ MIX[1])
    low = fold(lanes[0] ^ MIX[2], lanes[1] ^ len(words))
    high = fold(lanes[2] ^ MIX[3], lanes[3] ^ MIX[0])
    return fold(low ^ MIX[1], high ^ MIX[4])


def chained(above: int, words: int) -> int:
    return fold(above ^ MIX[5], words ^ MIX[6])


def key_of_namespace(name: bytes) -> int:
    padded = name + bytes(8 - len(name) % 8)
    words = [int.from_bytes(padded[i : i + 8], "little") for i in range(0, len(padded), 8)]
    return chained(len(name), mix_words(words))


def keys_of(tokens: list[int], page_size: int, name: bytes) -> list[int]:
    key, keys = key_of_namespace(name), []
    for start in range(0, len(tokens) - page_size + 1, page_size):
        key = chained(key, mix_words([t & MASK for t in tokens[start : start + page_size]]))
        keys.append(key)
    return keys


def packed(keys: list[int]) -> bytes:
    return np.array(keys, dtype=np.uint64).tobytes()


@pytest.mark.parametrize("page_size", [1, 3, 4, 8, 13, 16, 64])
@pytest.mark.parametrize("high", [1 << 17, 1 << 31, 1 << 62])
def test_page_keys_are_the_chain_that_is_written_down(page_size: int, high: int) -> None:
    random = np.random.default_rng(page_size + high % 97)
    tokens = random.integers(-high, high, 5 * page_size + page_size // 2)
    for extra in (None, "lora", "a name of sixteen", 7, "x" * 40):
        name = namespace(extra)
        expected = packed(keys_of(tokens.tolist(), page_size, name))
        assert page_keys(TokenSpan(tokens), page_size, namespace_key(name)) == expected
        run = pack_tokens(TokenSpan(tokens))
        start = namespace_key(name)
        assert packed_page_keys(run, len(tokens), page_size, start) == expected
        first = expected[:16]
        rest = page_keys(TokenSpan(tokens[2 * page_size :].copy()), page_size, first)
        assert first + rest == expected


def test_bad_arguments_of_page_keys_are_refused() -> None:
    span = TokenSpan(np.arange(8))
    with pytest.raises(ValueError, match="page_size=0 must be 1 or more"):
        page_keys(span, 0, namespace_key(b""))
    with pytest.raises(ValueError, match="no key in 7 bytes"):
        page_keys(span, 4, bytes(7))
    with pytest.raises(ValueError, match="12 bytes are not 8 tokens"):
        packed_page_keys(bytes(12), 8, 4, namespace_key(b""))


def test_nodes_keep_the_keys_of_their_pages() -> None:
    tree = RadixTree(P)
    tokens = np.arange(8 * P) * 3
    expected = keys_of(tokens.tolist(), P, b"ns")
    root = tree.root(b"ns")
    upper = tree.add(root, TokenSpan(tokens[: 5 * P]))
    tree.set_device(upper, np.arange(5))
    lower = tree.add(upper, TokenSpan(tokens[5 * P :]))
    tree.set_device(lower, np.arange(5, 8))
    assert upper.page_keys.tolist() == expected[:5]
    assert lower.page_keys.tolist() == expected[5:]
    assert not lower.page_keys.flags.writeable
    top = tree.split(upper, 2 * P)
    assert top.page_keys.tolist() == expected[:2]
    assert upper.page_keys.tolist() == expected[2:5]
    tree.check()
    tree.evict(tree.device, 1)
    assert lower.page_keys.tolist() == expected[5:7]
    tree.check()
    lower.packed_keys = upper.packed_keys[:16]
    with pytest.raises(InvariantError, match="page keys that are not those of its tokens"):
        tree.check()


def test_a_prefix_in_two_namespaces_has_two_names() -> None:
    tree = RadixTree(P)
    nodes = [tree.add(tree.root(name), TokenSpan(np.full(4 * P, 7))) for name in (b"", b"a", b"b")]
    keys = {key for node in nodes for key in node.page_keys.tolist()}
    assert len(keys) == 12
