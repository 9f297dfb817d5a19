"""A page-locked host pool in a file: what a killed process had saved comes back to the GPU."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from gpu_pools import LAYOUTS, WAYS, torch

import hicache_nsa as hc

PAGES = 24


def tokens_of(number: int) -> np.ndarray:
    return np.arange(PAGES * 16) + 1000 * number


def open_cache(file: str, way: str, layout: str) -> hc.HiCache:
    fmt = hc.formats.dsa(4, page_size=16)
    return hc.HiCache(
        fmt, device="cuda", device_pages=64, host_pages=400, host_file=file, io_backend=way,
        layout=layout, pin_memory=True,
    )  # fmt: skip


def value_of(number: int, page: int, layer: int) -> int:
    return (number * 31 + page * 7 + layer) % 251


def save_and_die(file: str, way: str, layout: str) -> None:
    """Three prompts are taken in; the fourth one's save is in flight when the process is killed."""
    cache = open_cache(file, way, layout)
    for number in range(4):
        pages = cache.allocate(PAGES)
        for tensors in cache.device_pool.buffers.values():
            for layer, tensor in enumerate(tensors):
                for index, page in enumerate(pages.tolist()):
                    tensor[page].fill_(value_of(number, index, layer))
        cache.insert(tokens_of(number), pages)
        if number < 3:
            assert cache.drain(30)
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("way", WAYS)
def test_a_killed_process_leaves_what_was_acknowledged(way: str, layout: str) -> None:
    here = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "cache")]
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        file = str(Path(folder) / "pool")
        code = (
            f"import sys; sys.path[:0] = {here!r}; import test_host_file_on_gpu as child; "
            f"child.save_and_die({file!r}, {way!r}, {layout!r})"
        )
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert ended.returncode == -9, ended.stderr
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # page-locked, nothing damaged
            cache = open_cache(file, way, layout)
        assert cache.stats().restored_host_tokens == 3 * PAGES * 16
        for number in range(4):
            match = cache.match_prefix(tokens_of(number))
            assert match.host_tokens == (PAGES * 16 if number < 3 else 0)
            if number == 3:
                continue
            with cache.load_back(match) as load:
                assert load.wait(30)
                for tensors in cache.device_pool.buffers.values():
                    for layer, tensor in enumerate(tensors):
                        for index, page in enumerate(load.pages.tolist()):
                            assert bool((tensor[page] == value_of(number, index, layer)).all())
        torch.cuda.synchronize()
        cache.close()
