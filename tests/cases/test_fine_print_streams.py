"""Streams: pages that are given up may still be read or written by what was queued before.

A ``CpuStream`` stands for the compute stream. Its work is held by an event, the pages are given up
in each of the ways there are, and a load of other tokens into them has to wait for that work, but
neither the caller nor the load waits for anything queued later.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
from case_bytes import wipe
from case_cache import LONG, CaseCache

import hicache_nsa as hc
from hicache_nsa.testing import fail_next, hold

A, B = list(range(8)), list(range(100, 108))


class Compute:
    """The engine's stream. ``busy_with`` queues work on pages behind a gate."""

    def __init__(self, stream: hc.CpuStream) -> None:
        self.stream = stream
        self.gate = threading.Event()
        self.later = threading.Event()
        self.right: list[bool] = []

    def busy_reading(self, c: CaseCache, pages, tokens, first=0) -> None:
        """Read ``pages`` behind the gate; they have to hold ``tokens`` then."""
        self.stream.enqueue(self.gate.wait)
        self.stream.enqueue(lambda: self.right.append(c.holds(pages, tokens, first)))

    def busy_writing(self, c: CaseCache, pages) -> None:
        self.stream.enqueue(self.gate.wait)
        self.stream.enqueue(lambda: self.right.append(wipe(c.device_pool, pages) is None))

    def goes_on(self) -> None:
        """Later work, which nothing may wait for."""
        self.stream.enqueue(self.later.wait)


@contextmanager
def computing():
    with hc.CpuStream() as stream:
        compute = Compute(stream)
        try:
            yield compute
        finally:
            compute.gate.set()
            compute.later.set()


def waits_for_the_stream(c: CaseCache, compute: Compute, tokens=B) -> None:
    """Load ``tokens`` into the pages that were just given up."""
    compute.goes_on()
    load = c.start_load(tokens)
    assert not load.wait(0.05), "the load did not wait for the stream"
    compute.gate.set()
    assert load.wait(LONG), "the load waits for later work"
    assert not compute.later.is_set()
    assert compute.right == [True] * len(compute.right) and compute.right
    assert c.holds(load.pages, tokens)
    c.release(load)


def test_free():
    with computing() as compute, CaseCache(8, 32) as c:
        c.put_on_host(B)
        pages = c.allocate(2)
        compute.busy_writing(c, pages)
        c.free(pages, stream=compute.stream)
        waits_for_the_stream(c, compute)


def test_unlock():
    with computing() as compute, CaseCache(8, 32) as c:
        c.put_on_host(B)
        result = c.put(A, lock=True)
        assert c.drain(LONG)
        compute.busy_reading(c, result.pages, A)
        c.unlock(result.handle, stream=compute.stream)
        assert c.evict_device(8) == 8
        waits_for_the_stream(c, compute)


def test_unlock_by_handing_the_handle_on():
    with computing() as compute, CaseCache(8, 32) as c:
        c.put_on_host(B)
        result = c.put(A, lock=True)
        assert c.drain(LONG)
        compute.busy_reading(c, result.pages, A)
        last = c.insert(A, result.pages, lock=result.handle, stream=compute.stream)
        c.unlock(last.handle)
        assert c.evict_device(8) == 8
        waits_for_the_stream(c, compute)


def test_release():
    with computing() as compute, CaseCache(8, 32) as c:
        c.put_on_host(A, B)
        load = c.start_load(A)
        assert load.wait(LONG) and c.poll() == 1
        compute.busy_reading(c, load.pages, A)
        load.release(stream=compute.stream)
        assert c.evict_device(8) == 8
        waits_for_the_stream(c, compute)


def test_release_of_pages_that_the_tree_did_not_need():
    with computing() as compute, CaseCache(16, 32) as c:
        c.put_on_host(A, B)
        with hold(c.cache, "h2d"):
            load = c.start_load(A)
            c.put(A)  # adopted: the load's own pages are freed at its release
        assert c.drain(LONG)
        compute.busy_reading(c, load.pages, A)
        pages = set(load.pages)
        load.release(stream=compute.stream)
        assert c.device.free == 8
        assert set(c.match_prefix(A).device_pages).isdisjoint(pages)
        waits_for_the_stream(c, compute)


def test_insert_of_duplicates():
    with computing() as compute, CaseCache(16, 32) as c:
        c.put_on_host(B)
        c.put(A)
        pages = c.compute(A)
        assert c.drain(LONG)
        compute.busy_writing(c, pages)
        assert c.insert(A, pages, stream=compute.stream).duplicate_tokens == 8
        assert c.device.free == 8
        waits_for_the_stream(c, compute)
        assert c.holds(c.match_prefix(A).device_pages, A)


def test_insert_of_pages_that_found_no_room_on_host():
    with computing() as compute, CaseCache(8, 8) as c:
        c.put_on_host(B)
        pin = c.lock(c.match_prefix(B))
        pages = c.compute(A)
        compute.busy_writing(c, pages)
        c.insert(A, pages, stream=compute.stream)
        assert c.stats().refused_save_tokens == 8 and c.evict_device(8) == 8
        waits_for_the_stream(c, compute)
        c.unlock(pin)


def test_reset_with_the_constructors_stream():
    with computing() as compute, CaseCache(8, 32, stream=compute.stream) as c:
        c.put_on_host(B)
        result = c.put(A)
        assert c.drain(LONG)
        compute.busy_reading(c, result.pages, A)
        c.reset()
        assert c.device.free == 8
        waits_for_the_stream(c, compute)


@pytest.mark.parametrize("part", ["own", "loaded"])
def test_every_handle_of_an_insert_behind_a_failed_load_counts(part):
    """Two requests use pages that nobody keeps; one of them, the first to unlock, is slow."""
    longer = [*A, 50, 51, 52, 53]
    with computing() as compute, CaseCache(12, 32) as c:
        c.put_on_host(A, B)
        fail_next(c.cache, "h2d")
        with hold(c.cache, "h2d"):
            load = c.start_load(A)
            own = c.compute_tail(longer, 8)
            given = np.concatenate([load.pages, own])
            slow = c.insert(longer, given, lock=True)
            quick = c.insert(longer, given, lock=True)
            assert quick.inserted_tokens == 0
            if part == "own":
                pages, target = own, B[:4]
                compute.busy_reading(c, pages, longer, first=2)
            else:
                pages, target = load.pages, B
                compute.busy_writing(c, pages)
            c.unlock(slow.handle, stream=compute.stream)
            c.unlock(quick.handle)
            c.release(load)
        assert c.drain(LONG) and c.device.free == 12
        others = [page for page in c.allocate(3) if page not in pages]
        c.free(pages)
        waits_for_the_stream(c, compute, target)  # into those pages
        c.free(others)


def test_a_save_waits_for_the_stream_and_the_caller_does_not():
    with computing() as compute, CaseCache(16, 32) as c:
        pages = c.compute(A)
        compute.stream.enqueue(compute.gate.wait)
        compute.goes_on()
        before = time.perf_counter()
        c.insert(A, pages, stream=compute.stream)
        assert time.perf_counter() - before < 1
        assert c.hit(A) == (8, 0) and c.device.locked == 8
        compute.gate.set()
        assert not c.drain(0.05)  # all that was queued before the insert counts
        compute.later.set()
        assert c.drain(LONG) and c.host_is(A)


def test_wait_layer_makes_that_stream_wait_and_not_the_caller():
    with hc.CpuStream() as stream, CaseCache(16, 32) as c:
        c.put_on_host(A)
        seen = []
        with hold(c.cache, "h2d"):
            load = c.start_load(A)
            for layer in range(3):
                load.wait_layer(layer, stream=stream)
                stream.enqueue(seen.append, layer)
            read = stream.enqueue(c.holds, load.pages, A)
            time.sleep(0.05)
            assert seen == [] and not load.done()
        assert read.result(LONG) is True and seen == [0, 1, 2]
        c.release(load)


def test_wait_layer_returns_when_the_load_has_failed():
    with hc.CpuStream() as stream, CaseCache(16, 32) as c:
        c.put_on_host(A)
        fail_next(c.cache, "h2d")
        load = c.start_load(A)
        load.wait_layer(2, stream=stream)
        stream.synchronize()
        load.wait_layer(0)
        assert load.wait_layer(1) is None
        with pytest.raises(hc.TransferError):
            load.wait()
        c.release(load)
        c.poll()
        assert c.device.free == 16
