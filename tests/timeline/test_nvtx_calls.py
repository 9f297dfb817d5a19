"""Calls of the cache are NVTX ranges; how copies and layers are is tested in C++."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from recorded_cache import small_cache

from hicache_nsa import _core

SOURCE = Path(__file__).parents[2] / "cpp" / "tests" / "nvtx_injection.cpp"
SCRIPT = """
import ctypes, os
from recorded_cache import save_flush_load, small_cache
from hicache_nsa import _core
assert _core.nvtx_attached()
injected = ctypes.CDLL(os.environ["NVTX_INJECTION64_PATH"])
injected.ranges_seen.restype = ctypes.c_char_p
with small_cache() as cache:
    assert not cache.timeline.on
    save_flush_load(cache, lambda: b"wait for layer 0" in injected.ranges_seen())
    with cache.timeline.span("attention"):
        cache.stats()
    assert cache.timeline.spans() == []
native = _core.Timeline()
native.start(1)
begin = native.begin_call("odd")
try:
    native.end_call("nowhere", "odd", begin)
except ValueError:
    assert injected.ranges_open() == 0
else:
    raise AssertionError("no such track, and nobody says so")
assert injected.ranges_open() == injected.ranges_unbalanced() == 0
print(injected.ranges_seen().decode(), end="")
"""


def headers() -> Path | None:
    """Where NVTX's headers are."""
    nvcc = shutil.which("nvcc")
    roots = [Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))]
    if nvcc is not None:
        roots.append(Path(nvcc).resolve().parents[1])
    found = [root / "include" for root in roots]
    return next((each for each in found if (each / "nvtx3" / "nvToolsExt.h").exists()), None)


@pytest.fixture(scope="module")
def injection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    include, compiler = headers(), shutil.which("g++")
    if not _core.build_info()["cuda"]:
        pytest.skip("this build has no CUDA backend, and so no ranges")
    if include is None or compiler is None:
        pytest.skip("needs NVTX's headers and g++")
    library = tmp_path_factory.mktemp("nvtx") / "injection.so"
    flags = ["-std=c++20", "-shared", "-fPIC", f"-I{include}"]
    subprocess.run([compiler, *flags, str(SOURCE), "-o", str(library)], check=True)
    return library


def run(variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    paths = [str(Path(__file__).parent), *filter(None, sys.path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **variables}
    return subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment, timeout=60
    )


def test_a_profiler_gets_calls_and_what_is_in_them(injection: Path) -> None:
    done = run({"NVTX_INJECTION64_PATH": str(injection)})
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    calls = [line for line in lines if " " not in line]
    assert calls == [
        *("allocate", "insert", "drain", "reset", "match_prefix", "load_back", "poll"),
        *("attention", "odd"),
    ]
    assert lines[lines.index("insert") + 1] == " submit d2h copy of pages 6"
    assert lines[lines.index("load_back") + 1] == " submit h2d copy of pages 6"
    assert "wait for layer 0" in lines
    assert lines[lines.index("attention") + 1] == " stats"


def test_without_a_profiler_nobody_is_told_of_calls() -> None:
    assert not _core.nvtx_attached()
    with small_cache() as cache:
        assert cache._guard.recorder is None
        cache.timeline.start()
        assert cache._guard.recorder is not None
        cache.timeline.stop()
        assert cache._guard.recorder is None
