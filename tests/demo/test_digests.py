import numpy as np
import pytest
import torch

from hicache_nsa.demo.digests import Mismatch, PageDigests

TOKENS = list(range(6))
PAGES = np.array([3, 0, 2], dtype=np.int64)


@pytest.fixture
def buffers() -> dict[str, list[torch.Tensor]]:
    generator = torch.Generator().manual_seed(0)

    def noise() -> torch.Tensor:
        return torch.randint(0, 256, (4, 10), dtype=torch.uint8, generator=generator)

    return {"latent": [noise(), noise()], "index_k": [noise()]}


@pytest.fixture
def digests(buffers: dict[str, list[torch.Tensor]]) -> PageDigests:
    made = PageDigests(buffers, page_size=2)
    made.record(TOKENS, PAGES, 0)
    return made


def test_unchanged_pages_match(digests: PageDigests) -> None:
    digests.compare(TOKENS, PAGES, 0)
    assert digests.mismatches == []
    assert (digests.pages_compared, digests.digests_compared) == (3, 9)


def test_pages_may_come_back_elsewhere(
    digests: PageDigests, buffers: dict[str, list[torch.Tensor]]
) -> None:
    for tensor in (t for tensors in buffers.values() for t in tensors):
        tensor[1] = tensor[2]
        tensor[2] = 0xEE
    digests.compare(TOKENS, np.array([3, 0, 1]), 2)
    assert digests.mismatches == []


def test_one_changed_byte_is_found_and_placed(
    digests: PageDigests, buffers: dict[str, list[torch.Tensor]]
) -> None:
    buffers["latent"][1][2, 9] ^= 1
    digests.compare(TOKENS, PAGES, 1)
    assert digests.mismatches == [Mismatch(first_token=4, buffer="latent", layer=1)]


def test_swapped_pages_differ(digests: PageDigests) -> None:
    digests.compare(TOKENS, PAGES[[0, 2, 1]], 0)
    assert {found.first_token for found in digests.mismatches} == {2, 4}
    assert len(digests.mismatches) == 6


def test_a_page_that_was_never_computed_is_a_mismatch(digests: PageDigests) -> None:
    digests.compare([9, *TOKENS[1:]], PAGES, 0)
    assert len(digests.mismatches) == 9


def test_the_first_computation_counts(
    digests: PageDigests, buffers: dict[str, list[torch.Tensor]]
) -> None:
    buffers["index_k"][0].zero_()
    digests.record(TOKENS, PAGES, 0)
    digests.compare(TOKENS, PAGES, 0)
    assert {found.buffer for found in digests.mismatches} == {"index_k"}
