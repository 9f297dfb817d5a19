from __future__ import annotations

import pytest
from machines import BUILD, CPU_MACHINE, GPU_MACHINE, INSTALLED, changed

from hicache_nsa.doctor import FAIL, OK, WARN
from hicache_nsa.doctor.check_software import (
    EXTRAS,
    check_numpy,
    check_package,
    check_python,
    check_torch,
    extra_check,
)
from hicache_nsa.doctor.facts import Facts


def with_build(facts: Facts, **build: str | bool) -> Facts:
    return changed(facts, software={"build": {**BUILD, **build}})


def with_package(name: str, version: str | None, facts: Facts = GPU_MACHINE) -> Facts:
    return changed(facts, software={"installed": {**INSTALLED, name: version}})


def test_a_whole_package() -> None:
    line = check_package(GPU_MACHINE)
    assert line.verdict == OK
    assert line.found == "hicache-nsa 0.1.0, core 0.1.0 with CUDA (compiler 12.2.0)"
    assert check_package(with_build(CPU_MACHINE, cuda=False)).verdict == OK


def test_a_build_without_cuda() -> None:
    asked = check_package(with_build(GPU_MACHINE, cuda=False))
    assert asked.verdict == FAIL and "HICACHE_CUDA=ON" in str(asked.fix)
    unused = with_build(changed(CPU_MACHINE, hardware={"device_files": ("nvidia0",)}), cuda=False)
    assert check_package(unused).verdict == WARN
    assert "cannot use it" in check_package(unused).meaning


def test_a_core_of_another_version() -> None:
    line = check_package(with_build(GPU_MACHINE, version="0.0.9"))
    assert line.verdict == WARN and "--force-reinstall" in str(line.fix)
    from_source = changed(GPU_MACHINE, software={"version": None})
    assert check_package(from_source).verdict == OK


def test_a_debug_build() -> None:
    line = check_package(with_build(CPU_MACHINE, debug=True))
    assert line.verdict == WARN and ", debug (" in line.found and "Debug" in str(line.fix)


def test_python() -> None:
    assert check_python(GPU_MACHINE).found == "CPython 3.12.3"


def test_numpy() -> None:
    assert check_numpy(GPU_MACHINE).verdict == OK
    old = check_numpy(with_package("numpy", "1.22.4"))
    assert old.verdict == WARN and old.fix == "pip install 'numpy>=1.23'"
    assert check_numpy(with_package("numpy", None)).verdict == FAIL


def test_torch_is_not_needed() -> None:
    line = check_torch(with_package("torch", None))
    assert (line.verdict, line.found) == (OK, "not installed")


def test_torch_and_its_cuda() -> None:
    line = check_torch(GPU_MACHINE)
    assert (line.verdict, line.found) == (OK, "2.9.0, CUDA 13.0")
    assert check_torch(with_package("torch", "2.5.1")).fix == "pip install 'torch<3,>=2.6'"
    blind = changed(GPU_MACHINE, software={"torch_cuda": None})
    assert check_torch(blind).verdict == WARN
    assert check_torch(blind).fix == "install a torch with CUDA"
    assert check_torch(changed(CPU_MACHINE, software={"torch_cuda": None})).verdict == OK


@pytest.mark.parametrize(
    ("built", "driver", "verdict"),
    [("13.0", 12080, WARN), ("12.8", 12020, OK), ("12.8", 13000, OK), ("13.1", 13000, OK)],
)
def test_torch_and_the_driver(built: str, driver: int, verdict: str) -> None:
    """Within a major version CUDA runs on older drivers."""
    facts = changed(GPU_MACHINE, software={"torch_cuda": built}, cuda={"driver": driver})
    line = check_torch(facts)
    assert line.verdict == verdict
    if verdict == WARN:
        assert "up to 12.8" in line.meaning and line.fix == "update the driver to one for CUDA 13.0"


def test_torch_beside_a_gpu_that_nobody_sees() -> None:
    assert check_torch(changed(GPU_MACHINE, cuda={"driver": 0, "problem": "none"})).verdict == OK


@pytest.mark.parametrize("name", EXTRAS)
def test_an_optional_package(name: str) -> None:
    check = extra_check(name)
    missing = check(with_package(name, None))
    assert (missing.verdict, missing.found) == (OK, "not installed")
    assert EXTRAS[name] in missing.meaning
    old = check(with_package(name, "0.0.1"))
    assert old.verdict == WARN and str(old.fix).startswith(f"pip install '{name}")
    unknown = changed(with_package(name, "0.0.1"), software={"wanted": {}})
    assert check(unknown).verdict == OK


def test_versions_that_were_tested() -> None:
    assert extra_check("vllm")(GPU_MACHINE).verdict == OK
    assert extra_check("vllm")(with_package("vllm", "0.34.0")).verdict == WARN
