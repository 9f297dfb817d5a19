"""The bench of transfers on the CPU backend, small: its cases, its rows, and that it can fail."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hicache_nsa as hc
from hicache_nsa.bench.page_runs import mean_run, pages_in_runs
from hicache_nsa.bench.replayed_pages import Replayed
from hicache_nsa.bench.report import BenchReport
from hicache_nsa.bench.settings import TransferSettings
from hicache_nsa.bench.transfer import TransferBench
from hicache_nsa.bench.transfer_cases import transfer_cases

CONTRACT = {"id", "direction", "bytes", "seconds_median", "gbps", "share_of_peak", "verified"}
LAYOUTS = ("layer_first", "page_first", "page_first_direct")


def settings(**options: Any) -> TransferSettings:
    return TransferSettings(**{"layers": 2, "pages": (4,), "rounds": 1, "workers": 1, **options})


def run(asked: TransferSettings) -> BenchReport:
    with TransferBench(asked) as bench:
        bench.run()
        return bench.report


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kv_dtype", ["fp8_ds_mla", "bf16", "fp8", "fp32"])
def test_every_layout_and_direction_is_verified(kv_dtype: str, packed: bool) -> None:
    asked = settings(layouts=LAYOUTS, both=True, kv_dtype=kv_dtype, packed=packed, pages=(1, 3))
    report = run(asked)
    assert report.passed
    assert len(report.cases) == len(LAYOUTS) * 2 * (2 * 2 + 1)
    assert all(case["verified"] is True for case in report.cases)


def test_a_row_says_what_was_measured() -> None:
    report = run(settings(host_runs=(2,), device_runs=(1, 4), rounds=2))
    page_bytes = hc.formats.dsa(2).page_bytes
    for case in report.cases:
        assert case.keys() >= CONTRACT
        assert case["bytes"] == 4 * page_bytes
        assert case["gbps"] == pytest.approx(case["bytes"] / case["seconds_median"] / 1e9)
        assert case["share_of_peak"] > 0 and case["submit_us_worst"] >= case["submit_us"] > 0
        assert case["way"] == case["device_way"] == []
        assert case["device_seconds_median"] is None
        assert case["merged_runs"] >= 4 / max(case["host_run"], case["device_run"])
    assert report.peak.keys() == {"h2d_gbps", "d2h_gbps"}
    assert all(value is not None and value > 0 for value in report.peak.values())


def test_a_direction_that_no_case_has_is_in_the_peak() -> None:
    assert all(value for value in run(settings(directions=("h2d",))).peak.values())


def test_ids() -> None:
    ids = [case.id for case in transfer_cases(settings(pages=(8, 512), host_runs=(1, 64)))]
    assert "page_first/auto/layerwise/run1/pages512/h2d" in ids
    assert "page_first/auto/whole/run64/pages512/d2h" in ids
    assert "page_first/auto/layerwise/run8/pages8/h2d" in ids  # a run is no longer than the copy
    assert not any("layerwise" in id and id.endswith("d2h") for id in ids)
    assert len(set(ids)) == len(ids)
    both = transfer_cases(settings(both=True, device_runs=(2,), packed=True, modes=("whole",)))
    assert both[-1].id == "packed/page_first/auto/whole/run1x2/pages4/both"
    joint = transfer_cases(settings(device="cuda", gemm=True))
    assert all(case.id.endswith("/gemm") and case.beside_compute is True for case in joint)


def test_a_filter() -> None:
    cases = transfer_cases(settings(layouts=LAYOUTS, pattern="page_first/*/h2d"))
    assert {case.layout for case in cases} == {"page_first"}
    assert {case.direction for case in cases} == {"h2d"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pattern": "nothing"}, "matches no case; there is, for example, 'page_first/auto"),
        ({"pool": 4}, "copies 4 pages at once and a pool of 4 has none left.*--pool 8"),
        ({"pages": (6,), "host_runs": (4,), "pool": 7}, "8 pages, the pool has 7: give --pool 8"),
        ({"gemm": True}, "give --device cuda"),
        ({"replay": "x", "both": True}, "can't go with --replay"),
        ({"replay": "x", "replay_device": 9, "pool": 8}, "give --pool 9"),
    ],
)  # fmt: skip
def test_what_cannot_be_measured_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TransferBench(settings(**options))


@pytest.mark.parametrize("run_length", [1, 3, 8])
def test_pages_in_runs(run_length: int) -> None:
    pages = pages_in_runs(64, 20, run_length, seed=3)
    assert len(set(pages.tolist())) == len(pages) == 20
    assert pages.min() >= 0 and pages.max() < 64
    starts = pages[::run_length]
    assert (starts % run_length == 0).all() and (np.diff(starts) != run_length).any()
    assert mean_run(pages) >= min(run_length, 20 / -(-20 // run_length))
    assert (pages != pages_in_runs(64, 20, run_length, seed=4)).any()


def damage(monkeypatch: pytest.MonkeyPatch, direction: str, how: str) -> None:
    """Let the engine do something else than it is asked for."""
    submit = hc.TransferEngine.submit

    def wrong(engine: Any, asked: str, host: Any, device: Any, *rest: Any, **options: Any) -> Any:
        if asked == direction:
            if how == "swapped":
                host = np.concatenate([host[1:], host[:1]])
            elif how == "left out":
                host, device = host[:-1], device[:-1]
            else:  # one page more, which is nobody's
                host, device = (
                    np.append(ids, np.setdiff1d(np.arange(pool.num_pages), ids)[:1])
                    for ids, pool in ((host, engine.host_pool), (device, engine.device_pool))
                )
        return submit(engine, asked, host, device, *rest, **options)

    monkeypatch.setattr(hc.TransferEngine, "submit", wrong)


@pytest.mark.parametrize("direction", ["h2d", "d2h"])
@pytest.mark.parametrize("how", ["swapped", "left out", "one more"])
def test_wrong_bytes_are_found(monkeypatch: pytest.MonkeyPatch, direction: str, how: str) -> None:
    damage(monkeypatch, direction, how)
    report = run(settings())
    assert not report.passed
    assert {case["direction"] for case in report.cases if not case["verified"]} == {direction}


def test_a_byte_behind_the_last_page_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from hicache_nsa.bench.rig import Rig

    verified = Rig.verified

    def spilt(rig: Rig, copies: Any) -> bool:
        rig._memory.bytes[-1] ^= 1
        return verified(rig, copies)

    monkeypatch.setattr(Rig, "verified", spilt)
    assert not run(settings(directions=("h2d",))).passed


def test_interrupted_it_has_what_was_done() -> None:
    def stop(label: str) -> None:
        if label.endswith("d2h"):
            raise KeyboardInterrupt

    with TransferBench(settings()) as bench:
        bench.run(stop)
        assert bench.report.interrupted and not bench.report.passed
        assert len(bench.report.cases) == 2


def test_a_failed_copy_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from hicache_nsa.bench.rig import Rig

    fill = Rig.fill

    def failing(rig: Rig, copies: Any) -> None:
        fill(rig, copies)
        rig.engine.fail_next("d2h")

    monkeypatch.setattr(Rig, "fill", failing)
    with pytest.raises(hc.TransferError):
        run(settings())


class Copied:
    def __init__(self, host: list[int], device: list[int]) -> None:
        self.host_pages, self.device_pages = np.array(host), np.array(device)


def test_pages_of_a_replay() -> None:
    early = [Copied([9, 9], [9, 9])] * 3
    loads = [*early, Copied([5, 6, 9], [0, 2, 4]), Copied([5, 1, 7], [0, 1, 2]), Copied([1], [8])]
    replayed = Replayed(loads, [])
    host, device = replayed.pages("h2d", 3)  # of two whole ones, the longer runs
    assert (host.tolist(), device.tolist()) == ([5, 6, 9], [0, 2, 4])
    host, device = replayed.pages("h2d", 4)  # one after the other, no page twice
    assert (host.tolist(), device.tolist()) == ([5, 6, 9, 7], [0, 2, 4, 2]) or len(set(device)) == 4
    with pytest.raises(ValueError, match="copies d2h of 0 different pages, 2 are to be copied"):
        replayed.pages("d2h", 2)


def test_a_replayed_trace(tmp_path: Any) -> None:
    pytest.importorskip("hicache_nsa.bench.replay")
    rows = [f'{{"input_length": 1024, "hash_ids": [{i % 3}, {10 + i % 7}]}}' for i in range(60)]
    trace = tmp_path / "trace.jsonl"
    trace.write_text("\n".join(rows))
    report = run(settings(replay=trace, pool=240, replay_device=40, pages=(8,)))
    assert report.passed
    assert {case["id"] for case in report.cases} == {
        f"page_first/auto/{mode}/replay/pages8/{direction}"
        for mode, direction in (("layerwise", "h2d"), ("whole", "h2d"), ("whole", "d2h"))
    }
