"""Byte formats of latent rows and index pages."""

from __future__ import annotations

import pytest
import torch

from hicache_nsa.reference import IndexCodec, LatentCodec
from hicache_nsa.reference.codec import power_of_two_at_least
from hicache_nsa.reference.fp8 import decode_e4m3, encode_e4m3

ROW_BYTES = {"bf16": 1152, "fp8_ds_mla": 656, "fp8": 576, "fp32": 2304}
# Largest relative error of a value: half a unit in the last place. (fp8: of normal numbers.)
PRECISION = {"bf16": 2**-8, "fp8_ds_mla": 2**-4, "fp8": 2**-4, "fp32": 0.0}


def rows(count: int, width: int = 576) -> torch.Tensor:
    return torch.randn(count, width, generator=torch.Generator().manual_seed(count))


@pytest.mark.parametrize("kv_dtype", ROW_BYTES)
def test_latent_rows_have_production_size_and_come_back_as_precise_as_the_type(
    kv_dtype: str,
) -> None:
    codec = LatentCodec(kv_dtype, 512, 64)
    original = rows(50)
    data = codec.pack(original)
    assert data.dtype == torch.uint8
    assert data.shape == (50, ROW_BYTES[kv_dtype]) == (50, codec.row_bytes)
    error = (codec.unpack(data) - original).abs()
    assert (error <= PRECISION[kv_dtype] * original.abs() + 2**-9 * (kv_dtype != "fp32")).all()


@pytest.mark.parametrize("kv_dtype", ROW_BYTES)
def test_packing_what_was_unpacked_changes_no_byte(kv_dtype: str) -> None:
    codec = LatentCodec(kv_dtype, 512, 64)
    data = codec.pack(rows(20))
    again = codec.unpack(data)
    if kv_dtype == "fp8_ds_mla":  # the scales round once more: compare values, not bytes
        assert torch.allclose(codec.unpack(codec.pack(again)), again, rtol=1e-6, atol=0)
    else:
        assert torch.equal(codec.pack(again), data)


def test_fp8_ds_mla_row_is_values_then_scales_then_rotated_bf16() -> None:
    original = rows(3)
    data = LatentCodec("fp8_ds_mla", 512, 64).pack(original)
    scales = data[:, 512:528].clone().view(torch.float32)
    tiles = original[:, :512].view(3, 4, 128)
    assert torch.equal(scales, tiles.abs().amax(-1) / 448)
    values = data[:, :512].clone().view(torch.float8_e4m3fn).float().view(3, 4, 128)
    assert torch.equal(values.abs().amax(-1), torch.full((3, 4), 448.0))
    assert torch.allclose(values * scales[..., None], tiles, rtol=2**-4, atol=1e-2)
    assert torch.equal(data[:, 528:].clone().view(torch.bfloat16), original[:, 512:].bfloat16())


def test_rows_of_zeros_and_huge_values_stay_finite() -> None:
    extreme = torch.zeros(3, 576)
    extreme[1] = 1e30
    extreme[2] = -1e-30
    for kv_dtype in ROW_BYTES:
        codec = LatentCodec(kv_dtype, 512, 64)
        back = codec.unpack(codec.pack(extreme))
        assert torch.isfinite(back).all(), kv_dtype
        assert (back[0] == 0).all()


def test_index_page_is_all_keys_then_all_scales() -> None:
    codec = IndexCodec("fp8", 64, 128, 128)
    assert codec.page_bytes == 8448
    keys = rows(64, 128)
    data, scales = codec.pack(keys)
    assert data.shape == (64, 128)
    assert scales.shape == (64, 4)
    page = torch.cat((data.flatten(), scales.flatten()))[None]
    assert page.shape == (1, 8448)
    factors = page[0, 8192:].clone().view(torch.float32)
    assert torch.equal(factors.log2(), factors.log2().round()), "scales are powers of two"
    assert (factors >= keys.abs().amax(-1) / 448).all()
    back = codec.unpack_pages(page)
    assert torch.allclose(back, keys, rtol=2**-4, atol=2**-8)


def test_precise_index_page_comes_back_exactly() -> None:
    codec = IndexCodec("fp32", 16, 128, 128)
    keys = rows(16, 128)
    data, scales = codec.pack(keys)
    assert codec.page_bytes == 16 * 512
    assert scales.numel() == 0
    assert torch.equal(codec.unpack_pages(data.view(1, -1)), keys)


def test_every_e4m3_byte_decodes_as_torch_casts_it() -> None:
    every = torch.arange(256, dtype=torch.uint8)
    expected = every.view(torch.float8_e4m3fn).float()
    assert torch.equal(decode_e4m3(every).nan_to_num(1e9), expected.nan_to_num(1e9))
    finite = every[expected.isfinite()]
    assert torch.equal(encode_e4m3(decode_e4m3(every))[expected.isfinite()], finite)
    assert decode_e4m3(encode_e4m3(torch.tensor([1e9, -1e9]))).tolist() == [448.0, -448.0]


def test_power_of_two_at_least_is_exact_at_and_beside_powers() -> None:
    exact = 2.0 ** torch.arange(-100, 100).float()
    above = torch.nextafter(exact, torch.tensor(torch.inf))
    below = torch.nextafter(exact, torch.tensor(0.0))
    assert torch.equal(power_of_two_at_least(exact), exact)
    assert torch.equal(power_of_two_at_least(above), exact * 2)
    assert torch.equal(power_of_two_at_least(below), exact)
