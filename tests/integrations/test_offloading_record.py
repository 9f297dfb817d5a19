"""Formats told from tensors, and host pages told from chunks."""

import numpy as np
import pytest

from hicache_nsa.integrations.offloading.chunk_pages import host_pages_of
from hicache_nsa.integrations.offloading.record import BlockTensor, record_of
from hicache_nsa.pools import DevicePool

LATENT, INDEX = 41_984, 8_448


def test_f01_v32_is_one_record_of_122_tensors() -> None:
    tensors = [
        BlockTensor(np.zeros((3, size), np.int8), size)
        for _ in range(61)
        for size in (LATENT, INDEX)
    ]
    record = record_of("deepseek-v3.2", 64, tensors)
    assert [(b.page_bytes, len(b.layers)) for b in record.format.buffers] == [
        (LATENT, 61), (INDEX, 61),
    ]  # fmt: skip
    assert record.format.page_bytes == 61 * (LATENT + INDEX)
    assert [t is record.buffers[f"kv_{LATENT}"][i // 2] for i, (t, _) in enumerate(tensors)][
        ::2
    ] == [True] * 61
    assert DevicePool(record.format, record.buffers).num_pages == 3


def test_a_size_may_have_fewer_layers() -> None:
    sizes = [LATENT, INDEX, LATENT, LATENT, INDEX]
    record = record_of("x", 64, [BlockTensor(np.zeros((2, n), np.int8), n) for n in sizes])
    assert [b.layers for b in record.format.buffers] == [(0, 1, 2), (0, 1)]
    assert record.format.num_layers == 3


def test_tensors_of_other_lengths_are_refused() -> None:
    tensors = [BlockTensor(np.zeros((pages, 64), np.int8), 64) for pages in (4, 5)]
    record = record_of("x", 16, tensors)
    with pytest.raises(ValueError, match="5 pages, expected 4"):
        DevicePool(record.format, record.buffers)


def test_no_tensor_is_refused() -> None:
    with pytest.raises(ValueError, match="no KV cache tensor"):
        record_of("x", 16, [])


@pytest.mark.parametrize(
    ("chunks", "per_chunk", "first", "count", "pages"),
    [
        ([7, 2], 1, 5, 2, [7, 2]),
        ([7, 2], 3, 6, 6, [21, 22, 23, 6, 7, 8]),
        ([7, 2], 3, 7, 5, [22, 23, 6, 7, 8]),  # begins inside a chunk
        ([7, 2], 3, 8, 2, [23, 6]),  # and ends inside one
        ([7], 3, 7, 1, [22]),
        ([], 3, 7, 0, []),
    ],
)
def test_host_pages_of_a_job(
    chunks: list[int], per_chunk: int, first: int, count: int, pages: list[int]
) -> None:
    found = host_pages_of(np.array(chunks, dtype=np.int64), per_chunk, first, count)
    assert found.dtype == np.int64
    assert found.tolist() == pages


@pytest.mark.parametrize(("first", "count"), [(6, 3), (6, 7), (7, 2), (8, 5), (6, 0)])
def test_pages_that_do_not_fit_their_chunks(first: int, count: int) -> None:
    with pytest.raises(ValueError, match=r"need \d chunks of 3 pages, got 2"):
        host_pages_of(np.array([7, 2]), 3, first, count)
