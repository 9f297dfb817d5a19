"""Jobs on a real transfer engine: reported once, when their bytes are there, or never."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import hicache_nsa as hc
from hicache_nsa.integrations.offloading.copies import Copies
from hicache_nsa.integrations.offloading.copy_again import copy_again
from hicache_nsa.testing import corrupt, fail_next, hold
from hicache_nsa.transfer import D2H, H2D

FORMAT = hc.formats.dsa(num_layers=3)


class Worker:
    """Six device pages and eight host pages, in numbers that tell where they come from."""

    def __init__(self, layout: str = "page_first", **options: Any) -> None:
        self.device = hc.DevicePool(FORMAT, pages=6)
        self.host = hc.HostPool(FORMAT, pages=8, layout=layout)
        self.engine = hc.TransferEngine(self.device, self.host)
        self.copies = Copies(self.engine, **options)

    def fill(self, page: int, value: int) -> None:
        for buffer in FORMAT.buffers:
            for layer in buffer.layers:
                self.device.buffers[buffer.name][layer][page] = value + layer

    def value(self, page: int) -> int:
        """What ``fill`` wrote, if all of the page has it, else -1."""
        whole = all(
            (self.device.buffers[b.name][layer][page] == self.first(page) + layer).all()
            for b in FORMAT.buffers
            for layer in b.layers
        )
        return self.first(page) if whole else -1

    def first(self, page: int) -> int:
        return int(self.device.buffers["latent"][0][page][0])

    def submit(self, job: int, direction: str, host: list[int], device: list[int]) -> None:
        self.copies.submit(job, direction, np.array(host, np.int64), np.array(device, np.int64))

    def settle(self, *jobs: int) -> list[int]:
        self.copies.wait(jobs)
        return sorted(copy.job for copy in self.copies.finished())


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker()
    yield made
    made.engine.close()


def test_a_job_is_reported_once_and_when_its_bytes_are_there(worker: Worker) -> None:
    worker.fill(2, 40)
    with hold(worker.engine, D2H):
        worker.submit(1, D2H, [5], [2])
        assert worker.copies.finished() == []
    worker.copies.wait([1])
    (copy,) = worker.copies.finished()
    assert (copy.job, copy.direction, copy.nbytes) == (1, D2H, FORMAT.page_bytes)
    assert copy.seconds > 0
    assert worker.copies.finished() == []
    worker.submit(2, H2D, [5], [4])
    assert worker.settle(2, 99) == [2]
    assert worker.value(4) == 40


def test_a_job_is_in_flight_once(worker: Worker) -> None:
    with hold(worker.engine, D2H):
        worker.submit(1, D2H, [5], [2])
        with pytest.raises(ValueError, match="job 1 is in flight"):
            worker.submit(1, D2H, [6], [3])
    assert worker.settle(1) == [1]


def test_a_job_without_pages_ends_too(worker: Worker) -> None:
    worker.submit(1, H2D, [], [])
    assert worker.settle(1) == [1]


@pytest.mark.parametrize("layout", ["layer_first", "page_first", "page_first_direct"])
@pytest.mark.parametrize("after_pages", [0, 1])
def test_f05_a_failed_copy_is_made_again_in_both_directions(
    layout: str, after_pages: int, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker(layout)
    worker.fill(0, 10), worker.fill(1, 20)
    fail_next(worker.engine, D2H, after_pages)
    worker.submit(1, D2H, [7, 3], [0, 1])
    assert worker.settle(1) == [1]
    worker.fill(4, 99), worker.fill(5, 99)
    fail_next(worker.engine, H2D, after_pages)
    worker.submit(2, H2D, [7, 3], [5, 4])
    assert worker.settle(2) == [2]
    assert [worker.value(page) for page in (0, 1, 4, 5)] == [10, 20, 20, 10]
    assert worker.copies.repeated == 2
    assert "job 2 (h2d, 2 pages) failed and is made again" in caplog.text
    worker.engine.close()


def test_f05_a_copy_that_fails_twice_is_never_reported() -> None:
    def broken(*args: Any) -> None:
        raise OSError("no way")

    worker = Worker(again=broken)
    worker.submit(1, H2D, [3], [0])
    worker.copies.wait([1])
    fail_next(worker.engine, H2D)
    worker.submit(2, H2D, [3], [1])
    for _ in range(2):
        with pytest.raises(hc.TransferError, match=r"job 2 .*failed too: no way.*restart the work"):
            worker.copies.wait([2])
    with pytest.raises(hc.TransferError, match="job 2"):
        worker.copies.finished()
    with pytest.raises(hc.TransferError, match="job 2"):
        worker.submit(3, H2D, [3], [2])
    worker.engine.close()


def test_the_second_try_compares_what_it_copied(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker.fill(1, 77)
    monkeypatch.setattr(np, "copyto", lambda target, source: None)
    with pytest.raises(hc.TransferError, match="host page 3 and device page 1 differ in 'latent'"):
        copy_again(worker.device, worker.host, H2D, np.array([3]), np.array([1]))


@pytest.mark.parametrize("direction", [H2D, D2H])
def test_the_second_try_on_tensors_of_torch(direction: str) -> None:
    torch = pytest.importorskip("torch")
    buffers = {
        b.name: [torch.zeros((6, b.page_bytes), dtype=torch.int8) for _ in b.layers]
        for b in FORMAT.buffers
    }
    device = hc.DevicePool(FORMAT, buffers)
    host = hc.HostPool(FORMAT, pages=8)
    host.page_view("index_k", 2, 7)[...] = 5
    buffers["index_k"][2][4] = 6
    copy_again(device, host, direction, np.array([7]), np.array([4]))
    value = 5 if direction == H2D else 6
    assert (buffers["index_k"][2][4] == value).all()
    assert (host.page_view("index_k", 2, 7) == value).all()


def test_a_load_of_pages_that_are_not_what_was_saved_is_not_made_again() -> None:
    """Page by page it would bring the same wrong bytes, and call them right."""
    worker = Worker()
    worker.engine.close()
    worker.engine = hc.TransferEngine(worker.device, worker.host, verify="all")
    worker.copies = Copies(worker.engine)
    worker.fill(2, 40)
    worker.submit(1, D2H, [5], [2])
    assert worker.settle(1) == [1]
    corrupt(worker.host, 5, 1, 8)
    worker.submit(2, H2D, [5], [3])
    for _ in range(2):
        with pytest.raises(hc.TransferError, match=r"host page 5, layer 1.*restart the worker"):
            worker.settle(2)
    assert worker.copies.repeated == 0
    worker.engine.close()
