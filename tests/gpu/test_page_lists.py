"""Lists of pages in every form that is accepted; what is refused is refused before a byte moves."""

from __future__ import annotations

import array

import numpy as np
import pytest
from gpu_pools import WAYS, Pools, format_of, torch

import hicache_nsa as hc

FORMAT = format_of(132)
NUMPY = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", ">i4", "<i8")
TORCH = ("int8", "uint8", "int16", "int32", "int64")


def torch_kinds(device: str):
    for name in TORCH:
        yield f"torch {name} {device}", lambda p, n=name: tensor(p, n, device)
    yield f"torch strided {device}", lambda p: tensor(np.repeat(p, 2), "int32", device)[::2]
    yield (
        f"torch column {device}",
        lambda p: tensor(np.stack([p, p], axis=1).reshape(-1), "int64", device).view(-1, 2)[:, 1],
    )


def tensor(pages, dtype: str, device: str):
    return torch.tensor(list(map(int, pages)), dtype=getattr(torch, dtype), device=device)


KINDS = {
    "list": list,
    "tuple": tuple,
    "list of numpy ints": lambda p: [np.int32(page) for page in p],
    "array.array": lambda p: array.array("i", p),
    "memoryview": lambda p: memoryview(bytes(p)),
    "numpy strided": lambda p: np.repeat(np.array(p, np.int64), 3)[::3],
    "numpy backwards": lambda p: np.array(p[::-1], np.int64)[::-1],
    **{f"numpy {name}": lambda p, n=name: np.array(p, n) for name in NUMPY},
    **dict(torch_kinds("cpu")),
    **dict(torch_kinds("cuda")),
}
REFUSED = {
    "floats": [0.0, 1.0],
    "a float": [0, 1.0],
    "a bool": [0, True],
    "None": None,
    "a number": 1,
    "text": "01",
    "bytes": b"\0\1",
    "a set": {0, 1},
    "two dimensions": [[0, 1]],
    "numpy floats": np.array([0.0, 1.0]),
    "numpy bools": np.array([False, True]),
    "numpy 0-d": np.array(1),
    "beyond int64": np.array([0, 2**63], np.uint64),
    "far beyond": [0, 2**70],
    "negative": [0, -1],
    "outside": [0, 6],
    "beyond 32 bits": [0, 2**32],
    "one too few": [1],
    "one too many": [0, 1, 2],
    "an object": [0, object()],
}
ON_GPU = {
    "floats": lambda: torch.tensor([0.0, 1.0], device="cuda"),
    "bfloat16": lambda: torch.zeros(2, dtype=torch.bfloat16, device="cuda"),
    "bools": lambda: torch.tensor([False, True], device="cuda"),
    "two dimensions": lambda: torch.tensor([[0, 1]], device="cuda"),
    "no dimension": lambda: torch.tensor(1, device="cuda"),
    "negative": lambda: torch.tensor([0, -1], device="cuda"),
    "outside": lambda: torch.tensor([0, 6], device="cuda"),
    "meta": lambda: torch.zeros(2, dtype=torch.int64, device="meta"),
    "sparse": lambda: torch.tensor([0, 1], device="cuda").to_sparse(),
    "an element": lambda: [0, torch.tensor([1, 2], device="cuda")],
}


@pytest.mark.parametrize("way", WAYS)
def test_every_kind_of_list_names_the_same_pages(way) -> None:
    host, device = [4, 0, 3, 1], [0, 5, 2, 3]
    with Pools(FORMAT, 6, 6, io_backend=way) as pools:
        for turn, (kind, make) in enumerate(KINDS.items()):
            for page in range(6):
                pools.fill_device(page, 10 * turn + page)
            torch.cuda.synchronize()
            assert pools.engine.save(make(device), make(host)).wait(30)
            pools.memory.fill_(0)
            assert pools.engine.load(make(host), make(device)).wait(30)
            for h, d in zip(host, device, strict=True):
                assert pools.host_holds(h, 10 * turn + d), kind
                assert pools.device_holds(d, 10 * turn + d), kind
            assert pools.is_guard(2, "host") and pools.is_guard(5, "host"), kind
        for empty in ([], (), np.array([], np.int32), tensor([], "int32", "cuda"), range(0)):
            assert pools.engine.load(empty, empty).wait(0)
        for pages in (range(2, 4), iter_free(range(2, 4))):
            assert pools.engine.load(pages, pages).wait(30)


def iter_free(pages: range) -> object:
    """A sequence of our own: a length and items, nothing else."""

    class Pages:
        def __len__(self) -> int:
            return len(pages)

        def __getitem__(self, i: int) -> int:
            return pages[i]

    return Pages()


@pytest.mark.parametrize("way", ["auto", *WAYS])
def test_f33_what_is_no_list_of_pages_is_refused_before_a_byte_moves(way) -> None:
    good = [0, 1]
    with Pools(FORMAT, 6, 6, io_backend=way) as pools:
        wrong = {**REFUSED, **{f"GPU {name}": make() for name, make in ON_GPU.items()}}
        for name, pages in wrong.items():
            for call in (pools.engine.save, pools.engine.load):
                for arguments in ((pages, good), (good, pages)):
                    with pytest.raises((TypeError, ValueError)):
                        call(*arguments)
                        pytest.fail(f"{name} was taken")
        for repeated in ([1, 1], torch.tensor([1, 1], device="cuda")):
            with pytest.raises(ValueError, match="named twice"):
                pools.engine.save(good, repeated)
            with pytest.raises(ValueError, match="named twice"):
                pools.engine.load(good, repeated)
        for layers in ([0, 0], [3], [-1]):
            with pytest.raises(ValueError, match="Layer"):
                pools.engine.load(good, good, layers=layers)
        torch.cuda.synchronize()
        for taken in pools.engine.counters().values():
            assert set(taken.values()) == {0}
        for page in range(6):
            assert pools.is_guard(page, "host") and pools.is_guard(page, "device")
        assert pools.engine.load(good, good).wait(30)


def test_lists_may_change_once_a_copy_is_submitted() -> None:
    with Pools(FORMAT, 6, 6) as pools:
        for page in range(6):
            pools.fill_host(page, page)
        host, device = np.array([3, 1]), torch.tensor([2, 4], device="cuda")
        pools.engine.hold("h2d")
        ticket = pools.engine.load(host, device)
        host[:], device[:] = 0, 0
        pools.engine.release("h2d")
        assert ticket.wait(30) and isinstance(ticket, hc.Ticket)
        assert pools.device_holds(2, 3) and pools.device_holds(4, 1) and pools.is_guard(0, "device")
