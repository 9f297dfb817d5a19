"""What counts beside matrix products, by times alone: there is no GPU where these tests run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hicache_nsa.bench import beside, joint
from hicache_nsa.bench.beside import BackToBack, Burst, back_to_back, copies_ahead
from hicache_nsa.bench.joint import Joint, JointRounds
from hicache_nsa.bench.rig import Copy
from hicache_nsa.errors import HiCacheError

SUBMIT = 0.0002
PAUSE = 0.02
PAGE_BYTES = 1000


class Link:
    """One link and one clock: copies run one after the other, waiting moves the clock."""

    def __init__(self) -> None:
        self.now = 100.0
        self.free = 0.0
        self.in_flight = 0
        self.rests: list[float] = []

    def start(self, seconds: float) -> Callable[[], None]:
        self.now += SUBMIT
        begin = max(self.now, self.free)
        if self.free > 0:
            self.rests.append(begin - self.free)
        self.free = end = begin + seconds
        self.in_flight += 1

        def wait() -> None:
            self.now = max(self.now, end)
            self.in_flight -= 1

        return wait


@pytest.fixture
def link(monkeypatch: pytest.MonkeyPatch) -> Link:
    here = Link()
    clock = SimpleNamespace(perf_counter=lambda: here.now)
    monkeypatch.setattr(beside, "time", clock)
    monkeypatch.setattr(joint, "time", clock)
    return here


@pytest.mark.parametrize("ahead", [2, 4])
@pytest.mark.parametrize("seconds", [0.0005, 0.03, 0.3])
def test_copies_run_back_to_back_until_it_is_over(link: Link, ahead: int, seconds: float) -> None:
    over = link.now + 0.1
    ran = back_to_back(lambda: link.start(seconds), ahead, lambda: link.now >= over)
    assert ran.submitted == pytest.approx(100 + ahead * SUBMIT)
    assert link.in_flight == 0 and max(link.rests) == 0
    assert sum(end >= over for end in ran.ends) == ahead
    gaps = np.diff(ran.ends)
    assert gaps == pytest.approx(np.full(len(ran.ends) - 1, seconds), abs=SUBMIT)


def test_only_copies_whose_whole_time_lies_inside_count() -> None:
    ran = BackToBack(1.0, [1.1, 2.0, 2.5, 3.2, 4.0, 9.0])
    assert ran.inside(Burst(1, 1.5, 4.0)) == (3, pytest.approx(2.0))  # of 2.5, 3.2 and 4.0
    assert ran.inside(Burst(1, 1.5, 3.9)) == (2, pytest.approx(1.2))
    assert ran.inside(Burst(1, 2.1, 2.6)) == (0, 0.0)  # an end inside, but no beginning
    assert ran.inside(Burst(1, 5.0, 8.0)) == (0, 0.0)
    assert ran.shortfall(Burst(1, 1.5, 3.9)) is None


@pytest.mark.parametrize(
    ("burst", "message"),
    [
        (Burst(9, 0.9, 3.0), "9 products ran for 2100.00 ms, and began 100.00 ms before the copi"),
        (Burst(9, 1.5, 9.5), "the last copy ended 500.00 ms before them"),
        (Burst(9, 1.2, 2.4), "no copy began and ended meanwhile; they took 1000.00, 7000.00 ms"),
        (Burst(9, 3.0, 4.0), "no copy began and ended meanwhile; they took 1000.00, 7000.00 ms"),
    ],
)
def test_what_does_not_count_is_said_with_its_times(burst: Burst, message: str) -> None:
    assert message in str(BackToBack(1.0, [2.0, 9.0]).shortfall(burst))


def test_short_copies_need_more_of_them_in_flight() -> None:
    assert [copies_ahead(s) for s in (1.0, 0.03, 0.003, 0.0015, 0.001, 1e-5)] == [2, 2, 2, 3, 4, 8]


class Products:
    """``GemmStream`` on the link's clock: a product takes 1 ms alone, 1.1 beside copies."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.warmed_up = 0
        self.bursts: list[tuple[int, bool]] = []

    def warm_up(self) -> None:
        self.warmed_up += 1

    def burst_length(self, copy_seconds: float) -> int:
        return 50

    def _burst(self, count: int, seconds: float) -> Burst:
        begin = self.link.now + PAUSE
        return Burst(count, begin, begin + count * seconds)

    def alone(self, count: int) -> Burst:
        self.bursts.append((count, False))
        burst = self._burst(count, 0.001)
        self.link.now = burst.end
        return burst

    def beside(self, count: int, start: Any, ahead: int) -> tuple[Burst, BackToBack]:
        self.bursts.append((count, True))
        burst = self._burst(count, 0.0011)
        return burst, back_to_back(start, ahead, lambda: self.link.now >= burst.end)


class Stand:
    """As much of a rig and a machine as the joint measurement looks at."""

    stream = None
    format = SimpleNamespace(page_bytes=PAGE_BYTES)

    def __init__(self, link: Link, seconds: float, plain: float) -> None:
        self.link, self.seconds, self.plain = link, seconds, plain

    def submit(self, copies: Any, stream: Any) -> list[Any]:
        wait = self.link.start(self.seconds)
        return [SimpleNamespace(wait=lambda limit: wait() is None)]

    @contextmanager
    def counting(self, taken: Any) -> Any:
        yield
        taken.ways.add("staged")

    def queue_contiguous(self, direction: str, nbytes: int) -> Any:
        assert nbytes == 8 * PAGE_BYTES
        return SimpleNamespace(synchronize=self.link.start(self.plain))


def rounds(link: Link, seconds: float, plain: float, number: int) -> tuple[JointRounds, Products]:
    stand, products = Stand(link, seconds, plain), Products(link)
    measured = Joint(stand, products)  # type: ignore[arg-type]
    copies = [Copy("h2d", np.arange(8), np.arange(8))]
    found = None
    for _ in range(number):
        found = measured.round(stand, copies, "h2d", plain, seconds, found)  # type: ignore[arg-type]
    assert found is not None
    return found, products


def test_a_round_and_its_row(link: Link) -> None:
    found, products = rounds(link, 0.01, 0.008, 3)
    row = found.row()
    assert products.warmed_up == 3
    assert products.bursts == 3 * [(50, beside) for beside in (False, True, False, True, False)]
    assert row["gemm_slowdown"] == row["gemm_slowdown_contiguous"] == pytest.approx(0.1)
    assert row["gemm_slowdown_spread"] == pytest.approx([0.1, 0.1])
    assert row["gemm_alone_ms"] == pytest.approx(1.0)
    assert row["gemm_alone_spread"] == pytest.approx([0, 0])
    assert row["gemm_alone_drift"] == pytest.approx(0)
    assert row["gemm_products"] == 50 and row["gemm_copies"] == [5, 5]  # 6 ends in 55 ms
    assert row["gemm_gbps"] == pytest.approx(8 * PAGE_BYTES / 0.01 / 1e9)
    assert row["gemm_share_of_peak"] == pytest.approx(0.8)
    assert row["gemm_submit_us"] == pytest.approx(200) and row["gemm_way"] == ["staged"]


class Throttled(Products):
    """The second burst behind a warm-up takes 1.3 ms a product, whatever runs beside it."""

    def _burst(self, count: int, seconds: float) -> Burst:
        return super()._burst(count, 0.0013 if len(self.bursts) % 5 == 2 else seconds)


def test_a_burst_that_the_gpu_slows_down_falls_on_both_kinds_of_copies(link: Link) -> None:
    stand, products = Stand(link, 0.01, 0.01), Throttled(link)
    measured = Joint(stand, products)  # type: ignore[arg-type]
    found = None
    for _ in range(4):
        copies = [Copy("h2d", np.arange(8), np.arange(8))]
        found = measured.round(stand, copies, "h2d", 0.01, 0.01, found)  # type: ignore[arg-type]
    assert found is not None
    assert found.slowdowns == pytest.approx([0.3, 0.1, 0.3, 0.1])
    assert found.contiguous_slowdowns == pytest.approx([0.1, 0.3, 0.1, 0.3])
    row = found.row()
    assert row["gemm_slowdown"] == row["gemm_slowdown_contiguous"] == pytest.approx(0.2)


def test_a_burst_is_made_longer_until_a_copy_fits_and_stays_so(link: Link) -> None:
    found, products = rounds(link, 0.08, 0.05, 2)
    assert found.products == 200
    assert products.bursts[::5] == [(50, False), (100, False), (200, False), (200, False)]
    assert len(found.gbps) == len(found.alone) == len(found.copies) == 2
    assert found.row()["gemm_gbps"] == pytest.approx(8 * PAGE_BYTES / 0.08 / 1e9)


def test_copies_that_never_fit_end_it_with_their_times(link: Link) -> None:
    message = "8000 bytes could not be measured .* 400 products ran for 440.00 ms, and no copy"
    with pytest.raises(HiCacheError, match=message):
        rounds(link, 0.5, 0.01, 1)


def test_the_gpu_side_is_importable_without_a_gpu() -> None:
    pytest.importorskip("torch")
    from hicache_nsa.bench.cuda_gemm import GemmStream

    assert {"warm_up", "burst_length", "alone", "beside"} <= set(vars(GemmStream))
