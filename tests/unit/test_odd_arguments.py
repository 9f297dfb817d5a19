"""Arguments at the edge: errors name the option and the limit, natural types are taken."""

from __future__ import annotations

import numpy as np
import pytest

import hicache_nsa as hc
from hicache_nsa import formats, testing

FMT = formats.dsa(3, page_size=4)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: hc.DevicePool(formats.dsa(61), pages=10**7), hc.HiCacheError, "10000000 device"),
        (lambda: hc.HostPool(FMT, size=10**30), ValueError, "4294967294"),
        (lambda: hc.HostPool(FMT, size="1PiB"), ValueError, "host_size='1PiB'"),
        (lambda: hc.HostPool(FMT, pages=2**33), ValueError, "host_pages=8589934592"),
        (lambda: formats.dsa(10**8), ValueError, "num_layers=100000000"),
        (lambda: hc.DevicePool(FMT, {"latent": None, "index_k": None}), TypeError, "NoneType"),
        (lambda: hc.HiCache(FMT, device="cuda:0", host_pages=1), hc.HiCacheError, "device"),
        (lambda: testing.fail_next(object(), "h2d"), TypeError, "HiCache"),
        (
            lambda: formats.from_hf_config(
                {"num_hidden_layers": 2, "num_attention_heads": 0, "hidden_size": 8}
            ),
            ValueError,
            "num_attention_heads=0",
        ),
    ],
)
def test_errors_name_option_and_limit(call, error, words: str) -> None:
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("reserved", [{0}, frozenset({0}), [0], np.array([0]), range(1)])
def test_reserved_pages_in_any_collection(reserved) -> None:
    assert hc.DevicePool(FMT, pages=4, reserved=reserved).total_pages == 3


def test_numbers_of_numpy_are_numbers() -> None:
    assert formats.dsa(3, index_layers=np.array([0, 2])).buffer("index_k").layers == (0, 2)
    with hc.HiCache(FMT, device="cpu:0", device_pages=np.int64(4), host_pages=2) as cache:
        assert cache.drain(np.float32(1)) and cache.drain(10**400)
        cache.insert([1, 2, 3, 4], cache.allocate(np.int64(1)), extra_key=7)
        assert cache.match_prefix([1, 2, 3, 4], extra_key=np.int64(7)).tokens == 4
        assert cache.match_prefix(np.array([1, 2, 3, 4], dtype=object), extra_key=7).tokens == 4
