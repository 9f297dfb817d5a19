"""The digest of a page against a plain reading of its definition, and the table that keeps it."""

from __future__ import annotations

import numpy as np
import pytest

import hicache_nsa as hc
from hicache_nsa import _core

STEP = 0x9E3779B97F4A7C15
SPREAD = 0xD6E8FEB86659FD93
WORD = (1 << 64) - 1


def fold(x: int) -> int:
    return x ^ (x >> 32)


def by_definition(data: bytes) -> int:
    """What cpp/core/page_digest.h says, in Python's numbers."""
    total = 0
    for i in range(0, len(data), 8):
        step = (i // 8 + 1) * STEP & WORD
        word = int.from_bytes(data[i : i + 8], "little")
        total += fold(fold(word ^ step) * SPREAD & WORD) * (fold(step) | 1)
    mixed = fold(fold((total + (len(data) + 1) * STEP) & WORD) * SPREAD & WORD)
    return mixed or 1


def digest(data: bytes) -> int:
    return _core.page_digest(np.frombuffer(data, dtype=np.uint8))


def test_it_is_what_is_defined() -> None:
    rng = np.random.default_rng(1)
    for count in [*range(40), 132, 656, 8448, 41984, 41987]:
        data = rng.bytes(count)
        assert digest(data) == by_definition(data)


def test_known_values() -> None:
    assert digest(b"") == 0x17FB89EE9DCAB42A
    assert digest(bytes(8448)) == 0x8340A38631188834
    assert digest(bytes(i % 256 for i in range(41984))) == 0x7E9DA425CDD7F9D3
    assert digest(bytes(range(13))) == 0x8AEACD590DDC2AF4


def test_a_table_in_given_memory_keeps_what_is_there() -> None:
    fmt = hc.formats.dsa(3, page_size=4)
    nbytes = _core.PageDigests.nbytes(5, 3)
    assert nbytes == 5 * 3 * 8
    memory = _core.HostMemory(nbytes + 64)
    device, host = hc.DevicePool(fmt, pages=5), hc.HostPool(fmt, pages=5)
    host.digests = _core.PageDigests(5, 3, memory=memory, offset=64)
    engine = hc.TransferEngine(device, host, verify="all")
    assert engine.save([0, 1], [3, 4]).wait(30)
    engine.close()
    words = memory.view()[64:].view(np.uint64).reshape(5, 3)
    assert (words[3:] != 0).all() and (words[:3] == 0).all()
    again = _core.PageDigests(5, 3, memory=memory, offset=64)
    assert again.in_use and again.get(3, 2) == words[3, 2]
    again.forget(3)
    assert (words[3] == 0).all() and (words[4] != 0).all()
    del memory, host
    assert again.get(4, 0) == words[4, 0]


def test_what_does_not_fit_is_refused() -> None:
    memory = _core.HostMemory(100)
    for offset in (0, -8, 104):
        with pytest.raises(ValueError, match="120 bytes"):
            _core.PageDigests(5, 3, memory=memory, offset=offset)
    with pytest.raises(ValueError, match="multiple of 8"):
        _core.PageDigests(2, 3, memory=memory, offset=4)
    table = _core.PageDigests(5, 3)
    assert not table.in_use and table.get(4, 2) == 0
    for page, layer in ((5, 0), (0, 3), (-1, 0), (0, -1)):
        with pytest.raises(ValueError, match="5 pages of 3 layers"):
            table.get(page, layer)


def test_digests_of_another_pool_are_refused() -> None:
    fmt = hc.formats.dsa(3, page_size=4)
    device, host = hc.DevicePool(fmt, pages=5), hc.HostPool(fmt, pages=5)
    host.digests = _core.PageDigests(4, 3)
    with pytest.raises(ValueError, match="of 4 pages and 3 layers, the host pool has 5 and 3"):
        hc.TransferEngine(device, host, verify="all")
    assert not host.digests.in_use
