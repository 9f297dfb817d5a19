"""The end of caches and pools whose memory is still getting ready."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import hicache_nsa as hc
from hicache_nsa import testing

PAGE = 4
LONG = 30.0
STEP = 4096
SMALL = {"prepare_first": STEP, "prepare_step": STEP}


@pytest.fixture(autouse=True)
def held() -> Iterator[None]:
    with testing.hold_preparation():
        yield


def prompt(number: int, pages: int) -> list[int]:
    return [number * 1000 + i for i in range(pages * PAGE)]


def threads() -> int:
    return sum(1 for _ in Path("/proc/self/task").iterdir())


def test_50_caches_that_are_closed_while_they_grow_leave_nothing() -> None:
    fmt = hc.formats.dsa(2, page_size=PAGE)
    gc.collect()
    before = None
    for turn in range(50):
        cache = hc.HiCache(fmt, device_pages=4, host_size="8MiB", **SMALL)
        if turn % 3 == 0:
            testing.step_preparation(cache)
        if turn % 3 == 1:
            testing.finish_preparation(cache)
        pages = cache.allocate(2)
        cache.insert(prompt(turn, 2), pages)
        cache.close()
        cache.close()
        if before is None:
            before = threads()
    assert threads() == before


def test_a_closed_pool_says_so_to_who_waits() -> None:
    fmt = hc.formats.dsa(2, page_size=PAGE)
    pool = hc.HostPool(fmt, pages=40, **SMALL)
    view = pool.view()
    said: list[str] = []

    def wait() -> None:
        try:
            pool.wait_ready()
        except hc.HiCacheError as error:
            said.append(str(error))

    thread = threading.Thread(target=wait)
    thread.start()
    thread.join(0.1)
    pool.close()
    thread.join(LONG)
    assert len(said) == 1 and "was closed" in said[0]
    view[:] = 7  # a view keeps the bytes
    assert int(view[-1]) == 7


def test_a_cache_that_cannot_be_made_leaves_no_pool_that_gets_ready(monkeypatch) -> None:
    made: list[hc.HostPool] = []

    def refuse(self: hc.HostPool, wait: bool) -> None:
        made.append(self)
        raise hc.HiCacheError("no")

    monkeypatch.setattr(hc.HostPool, "begin_service", refuse)
    fmt = hc.formats.dsa(2, page_size=PAGE)
    before = threads()
    with pytest.raises(hc.HiCacheError, match="no") as caught:
        hc.HiCache(fmt, device_pages=4, host_size="8MiB", **SMALL)
    assert caught.value is not None and threads() == before
    with pytest.raises(hc.HiCacheError, match="closed"):
        made[0].memory  # noqa: B018


def test_a_child_of_a_fork_can_drop_a_pool_that_is_getting_ready() -> None:
    fmt = hc.formats.dsa(2, page_size=PAGE)
    pool = hc.HostPool(fmt, size="64MiB", prepare_first=0)
    pool.memory  # noqa: B018
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads
        child = os.fork()
    if child == 0:
        try:
            pool.wait_ready()
            os._exit(3)
        except hc.HiCacheError as error:
            wrong = "forked child" not in str(error)
            pool.close()
            os._exit(4 if wrong else 0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    testing.finish_preparation(pool)
    assert pool.wait_ready(LONG)


def test_a_process_may_end_while_memory_gets_ready() -> None:
    code = (
        "import hicache_nsa as hc\n"
        "fmt, options = hc.formats.dsa(4), {'prepare_first': 0}\n"
        "cache = hc.HiCache(fmt, device_pages=4, host_size='256MiB', **options)\n"
        "pool = hc.HostPool(fmt, size='256MiB', **options)\n"
        "view = pool.view()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_bytes_written_before_they_are_ready_stay() -> None:
    fmt = hc.formats.dsa(2, page_size=PAGE)
    pool = hc.HostPool(fmt, size="6MiB", prepare_first=0, prepare_step="1MiB")
    content = np.arange(pool.nbytes, dtype=np.uint64).astype(np.uint8)
    pool.view()[:] = content
    while pool.ready_bytes < pool.nbytes:
        testing.step_preparation(pool)
        assert np.array_equal(pool.view(), content)
