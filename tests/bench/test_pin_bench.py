"""``hicache bench pin``: what it reports, and that it sees bytes that are wrong."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import hicache_nsa as hc
from hicache_nsa.bench.pin import bench
from hicache_nsa.bench.pin.beats import Beats
from hicache_nsa.bench.pin.bench import PinBench, verify
from hicache_nsa.bench.pin.report import ALLOCATED, PINNED, PinReport
from hicache_nsa.bench.pin.settings import GIB, PinSettings
from hicache_nsa.cli.app import hicache

SMALL = 20 << 20
CASE = {"id", "bytes", "seconds_median", "seconds_per_gib", "gbps", "release_seconds", "verified"}


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(hicache, ["bench", "pin", *arguments], prog_name="hicache")


def test_table_and_json(tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    run = invoke("--size", "20MiB", "--device", "cpu", "--json", str(file))
    assert run.exit_code == 0, run.output
    written = json.loads(file.read_text(encoding="utf-8"))
    assert [case["id"] for case in written["cases"]] == ["pin/touch", "pin/background"]
    for case in written["cases"]:
        assert case.keys() >= CASE
        assert case["verified"] is True
        assert case["bytes"] <= SMALL
        assert case["id"] in run.output
    assert set(written["left_out"]) == {PINNED, ALLOCATED}
    assert written["alloc_by_pin"] is None
    assert written["environment"]["device"] == "cpu"
    assert written["cases"][1]["first_ready_seconds"] <= written["cases"][1]["seconds_median"]
    assert "there is no GPU here" in run.output
    assert "that beats every ms" in run.output


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--size", "much"], "'much' is not a size"),
        (["--size", "1KiB", "--device", "cpu"], "one page of"),
        (["--numa", "near", "--size", "20MiB", "--device", "cpu"], "numa='near'"),
        (["--huge-pages", "always"], "always"),
        (["--threads", "-1"], "-1"),
        (["--device", "tpu"], "tpu"),
    ],
)
def test_bad_usage(arguments: list[str], text: str) -> None:
    run = invoke(*arguments)
    assert run.exit_code == 2
    assert text in run.output


def test_more_than_there_is_fails_and_says_so() -> None:
    run = invoke("--size", "1PB", "--device", "cpu")
    assert run.exit_code == 1
    assert "no memory for a host pool" in run.output


def test_options_of_memory_reach_the_pools() -> None:
    with PinBench(PinSettings(SMALL, memory={"huge_pages": "off", "prepare_threads": 1})) as run:
        run.run()
    assert [case["huge_pages"] for case in run.report.cases] == ["off", "off"]
    assert run.report.passed


def test_a_byte_that_does_not_stay_is_seen() -> None:
    class Forgetful(hc.HostPool):
        def view(self):
            view = super().view()
            view.flags.writeable = True
            return _Forgets(view)

    class _Forgets:
        def __init__(self, view) -> None:
            self._view = view

        def __getitem__(self, key):
            return self

        def reshape(self, *shape):
            rows = self._view[: shape[0] * shape[1]].reshape(*shape)
            return _Rows(rows)

    class _Rows:
        def __init__(self, rows) -> None:
            self._rows = rows
            self._reads = 0

        def __getitem__(self, key):
            self._reads += 1
            if self._reads > 1:  # reading back
                self._rows[3, 0] ^= 1
            return self._rows[key]

    fmt = hc.formats.dsa(2)
    assert verify(hc.HostPool(fmt, pages=4))
    assert not verify(Forgetful(fmt, pages=4))


def test_a_pool_that_is_wrong_fails_the_bench(monkeypatch) -> None:
    monkeypatch.setattr(bench, "verify", lambda pool: False)
    assert invoke("--size", "20MiB", "--device", "cpu").exit_code == 1


def test_ratio_and_seconds_a_gib() -> None:
    report = PinReport({}, {}, 0.0)
    report.add(PINNED, 64 * GIB, 6.4, 3.2, verified=True)
    assert report.ratio is None
    report.add(ALLOCATED, 8 * GIB, 6.4, 0.8, verified=True)
    assert report.ratio == pytest.approx(8.0)
    assert report.cases[0]["seconds_per_gib"] == pytest.approx(0.1)
    assert report.cases[1]["release_seconds_per_gib"] == pytest.approx(0.1)
    report.error = "lost"
    assert not report.passed


def test_a_thread_that_is_held_up_shows_it() -> None:
    stops = iter([0.2])
    with Beats(lambda: time.sleep(next(stops, 0.0)), 0.001) as beats:
        time.sleep(0.5)
        assert beats.longest() >= 0.2
        beats.longest()

    def fails() -> None:
        raise RuntimeError("lost")

    with Beats(fails, 0.001) as broken:
        time.sleep(0.1)
        with pytest.raises(RuntimeError, match="lost"):
            broken.longest()
