"""F07, F08: rows of every width, and the engine's own tensors in every shape it may hand in."""

from __future__ import annotations

import numpy as np
import pytest
from case_bytes import LAYOUTS, WIPED, pattern
from numpy.lib.stride_tricks import as_strided

import hicache_nsa as hc

torch = pytest.importorskip("torch")

P, PAGES, LAYERS = 64, 6, 2
layouts = pytest.mark.parametrize("layout", LAYOUTS)


def rows_format(row_bytes: int, dtypes: tuple[str, ...] = (), layers: int = LAYERS):
    buffer = hc.BufferFormat("latent", P * row_bytes, tuple(range(layers)), dtypes)
    return hc.PoolFormat(f"rows-{row_bytes}", P, layers, (buffer,))


@layouts
@pytest.mark.parametrize("backend", ["auto", "kernel", "direct"])
@pytest.mark.parametrize("row_bytes", [132, 512, 576, 656, 1152])
def test_f07_every_row_width_is_copied_bit_for_bit(row_bytes, backend, layout):
    rng = np.random.default_rng(row_bytes)
    fmt = rows_format(row_bytes)
    device = hc.DevicePool(fmt, pages=16)
    host = hc.HostPool(fmt, pages=16, layout=layout)
    engine = hc.TransferEngine(device, host, io_backend=backend)
    arrays = device.buffers["latent"]
    before = [rng.integers(0, 256, array.shape, np.uint8) for array in arrays]
    for array, bytes_ in zip(arrays, before, strict=True):
        array[...] = bytes_
    source, target, back = (rng.choice(16, 5, replace=False) for _ in range(3))
    assert engine.save(source, target).wait()
    for layer in range(LAYERS):
        for s, t in zip(source, target, strict=True):
            assert np.array_equal(host.page_view("latent", layer, int(t)), before[layer][s])
    for array in arrays:
        array[...] = WIPED
    assert engine.load(target, back).wait()
    for layer, array in enumerate(arrays):
        expected = np.full_like(array, WIPED)
        expected[back] = before[layer][source]
        assert np.array_equal(array, expected)
    engine.close()


def test_f07_rows_of_another_width_are_refused_before_memory_is_made():
    packed, nominal = hc.formats.dsa(2, kv_dtype="fp8_ds_mla"), hc.formats.dsa(2, kv_dtype="fp8")
    host = hc.HostPool(nominal, size="1000GiB")  # would fail if it were mapped here
    with pytest.raises(ValueError, match=r"41984.*36864"):
        hc.TransferEngine(hc.DevicePool(packed, pages=2), host)
    tensors = {
        "latent": [np.zeros((2 * 64, 656), np.uint8)] * 2,
        "index_k": [np.zeros((2, 8448), np.uint8)] * 2,
    }
    with pytest.raises(ValueError, match=r"latent.*656 bytes.*36864.*576"):
        hc.HiCache(nominal, device_buffers=tensors, host_size="1000GiB")


# -- F08: tensors as engines have them ---------------------------------------------------------
# Each case: a block of bytes with guards around it, and the views of the layers on it.


def contiguous(block):
    whole = block.reshape(LAYERS, PAGES, P * 656)
    return [whole[layer] for layer in range(LAYERS)]


def token_rows(block):
    whole = block.reshape(LAYERS, PAGES * P, 656)
    return [whole[layer] for layer in range(LAYERS)]


def token_rows_with_a_head(block):
    whole = block.reshape(LAYERS, PAGES * P, 1, 656)
    return [whole[layer] for layer in range(LAYERS)]


def pages_of_rows(block):
    whole = block.reshape(LAYERS, PAGES, P, 656)
    return [whole[layer] for layer in range(LAYERS)]


def packed_by_page(block):
    whole = block.reshape(PAGES, LAYERS, P * 656)
    return [whole[:, layer] for layer in range(LAYERS)]


def packed_by_token(block):
    whole = block.reshape(PAGES * P, LAYERS, 656)
    return [whole[:, layer] for layer in range(LAYERS)]


def packed_in_a_page(block):
    whole = block.reshape(PAGES, P, LAYERS, 656)
    return [whole[:, :, layer] for layer in range(LAYERS)]


def rows_outside(block):
    whole = block.reshape(LAYERS, P, PAGES, 656)
    return [whole[layer].swapaxes(0, 1) for layer in range(LAYERS)]


def backwards_dimensions(block):
    whole = block.reshape(LAYERS, PAGES, 656, P)
    return [whole[layer].swapaxes(1, 2) for layer in range(LAYERS)]


def float8(block):
    return [view.view(torch.float8_e4m3fn) for view in map(torch.from_numpy, token_rows(block))]


def int8_pages(block):
    return [view.view(torch.int8) for view in map(torch.from_numpy, pages_of_rows(block))]


def strided_torch(block):
    return list(map(torch.from_numpy, packed_by_token(block)))


class Exported:
    """A tensor of a library that offers DLPack and nothing else."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def dlpack(block):
    return [Exported(view) for view in contiguous(block)]


VIEWS = [
    contiguous, token_rows, token_rows_with_a_head, pages_of_rows, packed_by_page, packed_by_token,
    packed_in_a_page, rows_outside, backwards_dimensions, float8, int8_pages, strided_torch, dlpack,
]  # fmt: skip


def as_bytes(view) -> np.ndarray:
    """The view as a numpy view of the same bytes."""
    if isinstance(view, Exported):
        return view.array
    return view.view(torch.uint8).numpy() if isinstance(view, torch.Tensor) else view


@layouts
@pytest.mark.parametrize("make", VIEWS)
def test_f08_views_are_copied_bit_for_bit_and_nothing_else_is_touched(make, layout):
    guard = 5000
    size = LAYERS * PAGES * P * 656
    memory = np.full(size + 2 * guard, WIPED, np.uint8)
    block = memory[guard:-guard]
    views = make(block)
    fmt = rows_format(656, ("float8_e4m3fn",))
    device = hc.DevicePool(fmt, {"latent": views})
    host = hc.HostPool(fmt, pages=PAGES, layout=layout)
    engine = hc.TransferEngine(device, host)

    for layer, view in enumerate(views):
        for page, part in enumerate(pages_of(as_bytes(view))):
            part[...] = pattern(page, layer, "latent", part.size).reshape(part.shape)
    before = memory.copy()
    assert engine.save([3, 1], [0, 5]).wait()
    assert np.array_equal(memory, before)
    block[:] = WIPED
    assert engine.load([0, 5], [4, 2]).wait()
    for layer, view in enumerate(views):
        for page, part in enumerate(pages_of(as_bytes(view))):
            if page not in (4, 2):
                assert (part == WIPED).all()
                continue
            source = 3 if page == 4 else 1
            expected = pattern(source, layer, "latent", part.size).reshape(part.shape)
            assert np.array_equal(part, expected), (layer, page)
    assert (memory[:guard] == WIPED).all() and (memory[-guard:] == WIPED).all()
    engine.close()


def pages_of(view: np.ndarray) -> list[np.ndarray]:
    """One view a page of a tensor with pages or token rows in its first dimension."""
    if len(view) == PAGES:
        return list(view)
    return [view[page * P : (page + 1) * P] for page in range(PAGES)]


def plain(shape=(PAGES, P * 656), dtype=np.uint8):
    return np.zeros(shape, dtype)


REFUSED = {
    "another device": lambda: torch.zeros((PAGES, P * 656), dtype=torch.uint8, device="meta"),
    "another element type": lambda: torch.zeros((PAGES, P, 328), dtype=torch.bfloat16),
    "another numpy type": lambda: plain((PAGES, P * 164), np.float32),
    "row too short": lambda: plain((PAGES * P, 655)),
    "page too long": lambda: plain((PAGES, P * 656 + 1)),
    "one dimension": lambda: plain((PAGES * P * 656,)),
    "no dimension": lambda: plain(()),
    "no whole page": lambda: plain((PAGES * P - 1, 656)),
    "another page count": lambda: plain((PAGES + 1, P * 656)),
    "negative stride": lambda: plain()[::-1],
    "every page the same": lambda: as_strided(plain((1, P * 656)), (PAGES, P * 656), (0, 1)),
    "pages overlap": lambda: as_strided(plain(), (PAGES, P * 656), (656, 1)),
    "rows overlap": lambda: as_strided(plain(), (PAGES * P, 656), (328, 1)),
    "rows of pages overlap": lambda: as_strided(plain(), (PAGES, P, 656), (656, 1312, 1)),
    "bytes with holes": lambda: plain((PAGES, P, 82, 3, 16))[:, :, :, 0, ::2],
    "read-only": lambda: np.frombuffer(bytes(PAGES * P * 656), np.uint8).reshape(PAGES, -1),
    "sparse": lambda: torch.zeros((PAGES, P * 656), dtype=torch.uint8).to_sparse(),
}


@pytest.mark.parametrize("make", REFUSED.values(), ids=REFUSED)
def test_f08_what_does_not_fit_is_refused_by_name(make):
    tensor = make()
    fmt = rows_format(656, ("float8_e4m3fn",), layers=2)
    good = plain()
    with pytest.raises(ValueError) as caught:
        hc.HiCache(fmt, device_buffers={"latent": [good, tensor]}, host_size="1000GiB")
    text = str(caught.value)
    assert "latent" in text and "layer 1" in text
    assert not good.any()


def test_f08_the_message_names_tensor_dtype_device_and_stride():
    fmt = rows_format(656, (), layers=1)
    with pytest.raises(ValueError) as caught:
        hc.DevicePool(fmt, {"latent": [torch.zeros((PAGES, P, 328), dtype=torch.bfloat16)]})
    text = str(caught.value)
    for part in ("latent", "bfloat16", "cpu", str((PAGES, P, 328)), str((P * 656, 656, 2))):
        assert part in text, (part, text)


def test_f08_layers_that_share_bytes_are_refused():
    fmt = rows_format(656)
    whole = np.zeros((P, PAGES + 1, 656), np.uint8)
    windows = [whole[:, :PAGES].swapaxes(0, 1), whole[:, 1:].swapaxes(0, 1)]
    same = np.zeros((PAGES, P * 656), np.uint8)
    shifted = np.zeros(PAGES * P * 656 + 656, np.uint8)
    late = [shifted[:-656].reshape(PAGES, -1), shifted[656:].reshape(PAGES, -1)]
    for pair in (windows, [same, same], late):
        with pytest.raises(ValueError, match="share memory"):
            hc.DevicePool(fmt, {"latent": pair})


@pytest.mark.parametrize(
    "dtype, kv_dtype, row",
    [("bfloat16", "bf16", 576), ("float8_e4m3fn", "fp8", 576), ("float32", "fp32", 576)],
)
def test_f08_views_of_the_same_bytes_in_the_formats_own_type(dtype, kv_dtype, row):
    fmt = hc.formats.mla(1, kv_dtype=kv_dtype, page_size=P)
    raw = torch.zeros(PAGES * fmt.page_bytes, dtype=torch.uint8)
    tensor = raw.view(getattr(torch, dtype)).view(PAGES, P, row)
    engine = hc.TransferEngine(hc.DevicePool(fmt, {"latent": [tensor]}), hc.HostPool(fmt, pages=2))
    raw[:] = torch.randint(0, 256, raw.shape, dtype=torch.uint8)
    before = raw.clone().view(PAGES, -1)
    assert engine.save([5, 0], [0, 1]).wait()
    raw[:] = WIPED
    assert engine.load([0, 1], [0, 5]).wait()
    after = raw.view(PAGES, -1)
    assert torch.equal(after[0], before[5]) and torch.equal(after[5], before[0])
    assert (after[1:5] == WIPED).all()
    engine.close()
