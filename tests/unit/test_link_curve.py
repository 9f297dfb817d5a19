"""The link curve: measured once a machine, kept, and never a reason to fail."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

import hicache_nsa as hc
from hicache_nsa import _core, link_curve
from hicache_nsa.link_curve import curve_file, identity_of, kept_curve, machine_curve, measure

POINTS = _core.LinkCurve.typical().points()


class Machine:
    """A GPU as far as ``link_curve`` looks at it: there is none where these tests run."""

    def __init__(self) -> None:
        self.identity = "GPU 1"
        self.measured = 0
        self.broken = False

    def measure(self, device: str) -> _core.LinkCurve:
        assert device == "cuda"
        if self.broken:
            raise RuntimeError("no memory")
        self.measured += 1
        return _core.LinkCurve(POINTS)


@pytest.fixture
def machine(monkeypatch, tmp_path) -> Machine:
    here = Machine()

    class LinkCurve:
        typical = _core.LinkCurve.typical
        measure = staticmethod(here.measure)

        def __new__(cls, points):
            return _core.LinkCurve(points)

    fake = SimpleNamespace(
        LinkCurve=LinkCurve,
        build_info=_core.build_info,
        cuda_device_identity=lambda device: here.identity,
    )
    monkeypatch.setattr(link_curve, "_core", fake)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return here


def test_it_is_measured_once_and_kept(machine) -> None:
    assert kept_curve("cuda") is None
    assert machine_curve("cuda").points() == machine_curve("cuda").points() == POINTS
    assert machine.measured == 1
    names = {path.name for path in curve_file("cuda").parent.iterdir()}
    assert names == {curve_file("cuda").name, "measuring.lock"}


def test_processes_measure_one_after_the_other(machine, tmp_path) -> None:
    """Who waited takes what the other one measured."""
    folder = tmp_path / "hicache-nsa"
    folder.mkdir()
    with (folder / "measuring.lock").open("w") as other, ThreadPoolExecutor(1) as pool:
        fcntl.flock(other, fcntl.LOCK_EX)
        curve = pool.submit(machine_curve, "cuda")
        time.sleep(0.05)
        assert not curve.done() and machine.measured == 0
        first = {"identity": identity_of("cuda"), "points": POINTS}
        curve_file("cuda").write_text(json.dumps(first))
        fcntl.flock(other, fcntl.LOCK_UN)
        assert curve.result(10).points() == POINTS and machine.measured == 0


def test_another_device_or_driver_is_measured_anew(machine) -> None:
    machine_curve("cuda")
    first = curve_file("cuda")
    machine.identity = "GPU 1 with another driver"
    assert curve_file("cuda") != first
    machine_curve("cuda")
    assert machine.measured == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: "[1, 2]",
        lambda text: json.dumps({"identity": json.loads(text)["identity"], "points": {}}),
        lambda text: text.replace("GPU 1", "GPU 2"),
        lambda text: text.replace("8192", "Infinity"),
        lambda text: "[" * 100_000,
    ],
)
def test_a_damaged_file_is_measured_again(machine, damage) -> None:
    machine_curve("cuda")
    path = curve_file("cuda")
    whole = path.read_text()
    path.write_text(damage(whole))
    assert machine_curve("cuda").points() == POINTS
    assert machine.measured == 2 and path.read_text() == whole


def test_nobody_waits_for_ever_for_a_measurement(machine, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(link_curve, "LOCK_SECONDS", 0.05)
    folder = tmp_path / "hicache-nsa"
    folder.mkdir()
    with (folder / "measuring.lock").open("w") as stopped:
        fcntl.flock(stopped, fcntl.LOCK_EX)
        assert machine_curve("cuda").points() == POINTS


def test_a_child_that_is_forked_meanwhile_keeps_no_lock(machine) -> None:
    folder = curve_file("cuda").parent
    with link_curve._alone(folder):
        child = os.fork()
        if child == 0:
            time.sleep(30)
            os._exit(0)
    try:
        with (folder / "measuring.lock").open() as again:
            fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_user_without_a_home(machine, monkeypatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", no_home)
    assert curve_file("cuda").name.startswith("link-")


def no_home() -> Path:
    raise RuntimeError("no home")


def test_a_folder_that_cannot_be_written_is_said_and_no_failure(machine, tmp_path) -> None:
    (tmp_path / "hicache-nsa").write_text("a file")
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match="XDG_CACHE_HOME"):
            assert machine_curve("cuda").points() == POINTS
    assert machine.measured == 2


def test_a_link_that_cannot_be_measured_is_taken_as_typical(machine) -> None:
    machine.broken = True
    with pytest.warns(RuntimeWarning, match="no memory"):
        assert machine_curve("cuda").points() == POINTS
    with pytest.raises(RuntimeError, match="no memory"):
        measure("cuda")


def test_a_curve_has_all_operations_in_both_directions() -> None:
    assert _core.LinkCurve(POINTS).points() == POINTS
    for direction in POINTS:
        for operation in POINTS[direction]:
            part = {d: dict(POINTS[d]) for d in POINTS}
            del part[direction][operation]
            with pytest.raises(ValueError, match=f"'{operation}' of '{direction}'"):
                _core.LinkCurve(part)


@pytest.mark.parametrize(
    "options, error, text",
    [
        ({"staging_byte": 1}, TypeError, "staging_bytes"),
        ({"staging_bytes": -1}, ValueError, "staging_bytes=-1 is negative"),
        ({"kernel_blocks": "4"}, TypeError, "kernel_blocks"),
        ({"kernel_blocks": True}, TypeError, "kernel_blocks"),
        ({"kernel_blocks": 2**31}, ValueError, "kernel_blocks=2147483648 must be at most 65535"),
        ({"workers": 10**6}, ValueError, "workers"),
        ({"staging_bytes": 2**63}, ValueError, "staging_bytes"),
        ({"staging_bytes": "much"}, ValueError, "staging_bytes='much' is not a size"),
        ({"link_curve": POINTS}, TypeError, "LinkCurve"),
    ],
)
def test_options_of_the_engine_are_checked_first(options, error, text) -> None:
    fmt = hc.formats.mla(2, kv_dtype="bf16")
    with pytest.raises(error, match=text):
        hc.HiCache(fmt, device_pages=4, host_pages=4, **options)
    if "staging_byte" in options:
        return  # Python's own message
    with pytest.raises(error, match=text):
        hc.TransferEngine(hc.DevicePool(fmt, pages=4), hc.HostPool(fmt, pages=4), **options)


def test_options_of_the_engine_are_taken() -> None:
    curve = _core.LinkCurve.typical()
    options = {"workers": 1, "staging_bytes": "1MiB", "link_curve": curve}
    fmt = hc.formats.mla(2, kv_dtype="bf16")
    with hc.HiCache(fmt, device_pages=4, host_pages=4, **options) as cache:
        pages = cache.allocate(1)
        cache.insert(list(range(64)), pages)
        cache.drain()
        assert cache.stats().saved_tokens == 64
