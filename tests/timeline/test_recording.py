from __future__ import annotations

import json
import multiprocessing
import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest
from recorded_cache import LAYERS, PAGES, has_waited, release_once, save_flush_load, small_cache
from trace_format import Slice, check_events, read_trace, rows_in_order

from hicache_nsa import HiCacheError, TransferEngine, _core, formats
from hicache_nsa.pools import DevicePool, HostPool
from hicache_nsa.testing import hold
from hicache_nsa.timeline import Timeline


def named(slices: list[Slice], row: str) -> list[str]:
    return [each.name for each in slices if each.row.split(",")[0] == row]


def test_nothing_is_recorded_unless_started() -> None:
    with small_cache() as cache:
        save_flush_load(cache, lambda: True)
        assert not cache.timeline.on
        assert cache.timeline.spans() == []
        assert check_events(cache.timeline.trace_events()) == []


def test_calls_copies_layers_and_waits_are_recorded() -> None:
    with small_cache() as cache:
        cache.timeline.start()
        save_flush_load(cache, has_waited(cache))
        cache.timeline.stop()
        events = cache.timeline.trace_events()
    slices = check_events(events)
    calls = named(slices, "scheduler")
    assert calls == [
        *("allocate", "insert", "drain", "reset", "match_prefix", "load_back", "poll"),
    ]
    layers = [f"layer {layer}" for layer in range(LAYERS)]
    for row in ("H2D", "D2H"):
        copies = [each for each in slices if each.row == row]
        assert [each.name for each in copies] == ["copy 1", *layers]
        copy = copies[0]
        assert copy.args["pages"] == PAGES
        assert copy.args["bytes"] == PAGES * cache.format.page_bytes
        assert copies[1].begin == copy.begin
        for before, after in pairwise(copies[1:]):
            assert before.end == after.begin
        assert copies[-1].end <= copy.end
        (queued,) = (each for each in slices if each.row == f"{row}, queued")
        assert queued.end == copy.begin
    waits = [each for each in slices if each.row.startswith("waits")]
    assert waits[0].name == "layer 0"
    assert [each.name for each in waits] == sorted({each.name for each in waits})
    assert waits[0].args["copy"] == 1
    load = next(each for each in slices if each.row == "H2D")
    assert waits[0].end >= load.begin


def test_rows_come_in_a_fixed_order() -> None:
    with small_cache() as cache:
        cache.timeline.start()
        with cache.timeline.span("attention"):
            save_flush_load(cache, has_waited(cache))
        rows = rows_in_order(cache.timeline.trace_events())
    assert [row.split(",")[0] for row in rows] == [
        *("scheduler", "compute", "waits", "H2D", "H2D", "D2H", "D2H")
    ]


def test_a_wait_is_one_span_however_long_it_lasts() -> None:
    with small_cache() as cache:
        tokens = list(range(64))
        cache.insert(tokens, cache.allocate(1))
        cache.drain()
        cache.reset()
        cache.timeline.start()
        cache.engine.hold("h2d")
        load = cache.load_back(cache.match_prefix(tokens))
        assert load is not None
        releasing = release_once(cache, has_waited(cache, pieces=2))
        load.wait_layer(0)
        releasing.join()
        waits = [s for s in check_events(cache.timeline.trace_events()) if "waits" in s.row]
        assert [each.name for each in waits] == ["layer 0"]
        pieces = [span for span in cache.timeline.spans() if span.kind == "wait"]
        assert len(pieces) > 1
        assert waits[0].end - waits[0].begin == pieces[-1].end - pieces[0].begin


def test_a_failed_copy_says_why() -> None:
    with small_cache() as cache:
        cache.timeline.start()
        cache.engine.fail_next("d2h", 2)
        cache.insert(list(range(256)), cache.allocate(4))
        cache.drain()
        (failed,) = (
            each
            for each in check_events(cache.timeline.trace_events())
            if each.name == "copy 1 failed"
        )
    assert failed.row == "D2H"
    assert failed.args["pages"] == 2
    assert "injected failure" in failed.args["error"]


def test_calls_of_several_threads_have_rows_of_their_own() -> None:
    with small_cache() as cache:
        cache.timeline.start()

        def look() -> None:
            for _ in range(50):
                cache.match_prefix(list(range(200)))
                with cache.timeline.span("layer", track="compute"):
                    cache.stats()

        threads = [threading.Thread(target=look) for _ in range(3)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        slices = check_events(cache.timeline.trace_events())
    by_row = {row: [s for s in slices if s.row == row] for row in {s.row for s in slices}}
    assert sum(row.startswith("scheduler") for row in by_row) == 3
    for row, members in by_row.items():
        assert len(members) == (100 if row.startswith("scheduler") else 50)


def test_the_oldest_go_when_it_is_full(tmp_path: Path) -> None:
    with small_cache() as cache:
        cache.timeline.start(capacity=3)
        for _ in range(5):
            cache.stats()
        cache.check()
        assert [span.text for span in cache.timeline.spans()] == ["stats", "stats", "check"]
        assert cache.timeline.dropped == 3
        cache.timeline.write(tmp_path / "t.json")
        read_trace(tmp_path / "t.json")
        document = json.loads((tmp_path / "t.json").read_text())
        assert document["otherData"]["dropped_spans"] == 3


def test_layers_of_a_copy_that_has_not_ended_or_fell_out_stand_alone() -> None:
    with small_cache() as cache:
        cache.timeline.start(capacity=2)
        with hold(cache, "d2h"):  # the call's own span is older than those of the copy
            cache.insert(list(range(256)), cache.allocate(4))
        while cache.engine.in_flight("d2h"):
            time.sleep(0.001)
        slices = check_events(cache.timeline.trace_events())
        assert [each.name for each in slices] == ["copy 1", f"layer {LAYERS - 1}"]


def test_what_was_recorded_stays_after_the_end(tmp_path: Path) -> None:
    cache = small_cache()
    timeline = cache.timeline
    timeline.start()
    cache.stats()
    cache.close()
    with pytest.raises(HiCacheError):
        cache.stats()  # is a call, too
    timeline.write(tmp_path / "t.json")
    assert named(read_trace(tmp_path / "t.json"), "scheduler") == ["stats", "stats"]
    timeline.start()
    timeline.stop()
    assert timeline.spans() == []


def test_an_engine_alone_has_one(tmp_path: Path) -> None:
    fmt = formats.dsa(2, page_size=64)
    device, host = DevicePool(fmt, pages=4), HostPool(fmt, pages=4)
    engine = TransferEngine(device, host)
    engine.timeline.start()
    for _ in range(3):
        engine.load([0, 1], [2, 3], layers=[1, 0]).wait()
    engine.timeline.write(tmp_path / "t.json")
    engine.close()
    slices = [s for s in read_trace(tmp_path / "t.json") if s.row == "H2D"]
    assert [s.name for s in slices] == [
        name for copy in (1, 2, 3) for name in (f"copy {copy}", "layer 1", "layer 0")
    ]


def test_spans_of_ones_own() -> None:
    with small_cache() as cache:
        timeline = cache.timeline
        with timeline.span("before"):
            timeline.start()  # in the middle of a span: that one is left out
        begin = time.monotonic_ns()
        with pytest.raises(ZeroDivisionError), timeline.span("outer"), timeline.span("inner"):
            raise ZeroDivisionError
        end = time.monotonic_ns()
        timeline.add("gemm", begin, end)
        timeline.add("gemm", begin + 1, end + 1)  # overlaps in part
        timeline.add("memcpy", begin, end, track="h2d")
        slices = check_events(timeline.trace_events())
        assert named(slices, "H2D") == ["memcpy"]
        assert sorted(named(slices, "compute")) == ["gemm", "gemm", "inner", "outer"]
        spans = {span.text: span for span in timeline.spans()}
        assert begin <= spans["outer"].begin <= spans["inner"].begin
        assert spans["inner"].end <= spans["outer"].end <= end


def test_bad_arguments_change_nothing(tmp_path: Path) -> None:
    with small_cache() as cache:
        timeline = cache.timeline
        timeline.start(4)
        cache.stats()
        for capacity in (0, -1, 2**24 + 1, 2**70):
            with pytest.raises(ValueError, match=str(capacity)):
                timeline.start(capacity)
        for wrong in (1.5, "many", True):
            with pytest.raises(TypeError):
                timeline.start(wrong)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="gpu"), timeline.span("x", track="gpu"):
            pytest.fail("the body ran")
        with pytest.raises(ValueError, match="waits"):
            timeline.add("x", 0, 1, track="wait")
        with pytest.raises(ValueError, match="before it begins"):
            timeline.add("x", 2, 1)
        with pytest.raises(ValueError, match="begin=-1"):
            timeline.add("x", -1, 1)
        with pytest.raises(ValueError, match=f"end={2**63}"):
            timeline.add("x", 0, 2**63)
        for name in (None, 5, b"x"):
            with pytest.raises(TypeError, match="must be a string"):
                timeline.add(name, 0, 1)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="must be a string"), timeline.span(name):  # type: ignore[arg-type]
                pytest.fail("the body ran")
        with pytest.raises(UnicodeEncodeError), timeline.span("\ud800"):
            pytest.fail("the body ran")
        with pytest.raises(OSError, match="nowhere"):
            timeline.write(tmp_path / "nowhere" / "t.json")
        assert timeline.on
        assert [span.text for span in timeline.spans()] == ["stats"]


def test_what_a_file_can_not_say_leaves_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    with small_cache() as cache:
        cache.timeline.start()
        cache.stats()
        cache.timeline.write(path, {"gpu": 'odd "name" \ud800 \u00e4'})
        before = path.read_bytes()
        for about in (float("nan"), object()):
            with pytest.raises((ValueError, TypeError), match="JSON"):
                cache.timeline.write(path, {"about": about})
            assert path.read_bytes() == before
    assert json.loads(before)["otherData"]["gpu"] == 'odd "name" \ud800 \u00e4'
    assert named(read_trace(path), "scheduler") == ["stats"]


class SlowInformant:
    """Is told of a stop only after somebody else has started again."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._known: _core.Timeline | None = None
        self.interrupted = False

    @property
    def recorder(self) -> _core.Timeline | None:
        return self._known

    @recorder.setter
    def recorder(self, native: _core.Timeline | None) -> None:
        if native is None and not self.interrupted:
            self.interrupted = True
            self._timeline.start()
        self._known = native


def test_a_start_beside_a_stop_is_not_lost() -> None:
    timeline = Timeline(_core.Timeline())
    informant = SlowInformant(timeline)
    timeline.enlist(informant)
    timeline.start()
    timeline.stop()
    assert informant.interrupted
    assert timeline.on
    assert informant.recorder is not None
    timeline.stop()
    assert informant.recorder is None


def _own_timeline(results: object) -> None:
    timeline = Timeline(_core.Timeline())
    timeline.start()
    with timeline.span("x"):
        pass
    (span,) = timeline.spans()
    results.put(span.thread == threading.get_native_id())  # type: ignore[attr-defined]


def test_a_forked_child_has_threads_of_its_own() -> None:
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    _own_timeline(results)
    child = context.Process(target=_own_timeline, args=(results,))
    child.start()
    assert [results.get(timeout=30) for _ in range(2)] == [True, True]
    child.join()


def _in_child(cache: object, results: object) -> None:
    timeline = cache.timeline  # type: ignore[attr-defined]
    with timeline.span("nothing"):
        pass
    try:
        timeline.spans()
    except HiCacheError as error:
        results.put(str(error))  # type: ignore[attr-defined]


def test_a_forked_child_is_told_so() -> None:
    context = multiprocessing.get_context("fork")
    with small_cache() as cache:
        cache.timeline.start()
        results = context.Queue()
        child = context.Process(target=_in_child, args=(cache, results))
        child.start()
        assert "forked child" in results.get(timeout=30)
        child.join()
        assert cache.timeline.spans() == []
