"""What the doctor measures: real copies on the CPU, the link curve of a GPU that is not there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hicache_nsa import TransferEngine, _core
from hicache_nsa.doctor import measuring
from hicache_nsa.doctor.measuring import measure


def test_copies_on_the_cpu() -> None:
    found = measure("cpu", 0.1)
    assert found.problem is None
    assert found.h2d is not None and found.h2d > 0
    assert found.d2h is not None and found.d2h > 0
    assert "two pools in host memory, bytes compared" in found.how


def test_bytes_that_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    load = TransferEngine.load

    def wrong(engine: TransferEngine, host: Any, device: Any) -> Any:
        return load(engine, np.roll(host, 1), device)

    monkeypatch.setattr(TransferEngine, "load", wrong)
    found = measure("cpu", 0.0)
    assert (found.h2d, found.d2h) == (None, None)
    assert found.problem == "bytes that were loaded and saved differ from those before"


def test_a_save_that_brings_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def loads_again(engine: TransferEngine, device: Any, host: Any) -> Any:
        return engine.load(host, device)

    monkeypatch.setattr(TransferEngine, "save", loads_again)
    assert "differ from those before" in str(measure("cpu", 0.0).problem)


def test_a_copy_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    save = TransferEngine.save

    def failing(engine: TransferEngine, *pages: Any) -> Any:
        engine.fail_next("d2h")
        return save(engine, *pages)

    monkeypatch.setattr(TransferEngine, "save", failing)
    assert "injected failure" in str(measure("cpu", 0.0).problem)


def test_no_memory_for_the_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "CPU_PAGES", 1_000_000_000)
    problem = measure("cpu", 0.0).problem
    assert problem is not None and "pages" in problem


def test_the_median_of_link_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    seconds = [4e-5, 2e-5, 3e-5]

    def curve(device: str) -> _core.LinkCurve:
        asked.append(device)
        points = _core.LinkCurve.typical().points()
        for operations in points.values():
            for name in operations:
                operations[name] = [(1, 1e-5), (1 << 20, seconds[len(asked) - 1])]
        return _core.LinkCurve(points)

    monkeypatch.setattr(
        measuring, "_core", SimpleNamespace(LinkCurve=SimpleNamespace(measure=curve))
    )
    clock = iter([0.0, 1.0, 1.9, 2.1])
    monkeypatch.setattr(measuring, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    found = measure("cuda:1")
    assert asked == ["cuda:1"] * 3
    assert found.h2d == found.d2h == (1 << 20) / 3e-5
    assert found.how.endswith("3 times")
