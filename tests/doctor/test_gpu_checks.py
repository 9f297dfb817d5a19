from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from machines import ADDRESS, CPU_MACHINE, GPU, GPU_MACHINE, ROW, changed

from hicache_nsa.doctor import FAIL, OK, WARN, Finding
from hicache_nsa.doctor.check_gpu import check_driver, check_gpu
from hicache_nsa.doctor.check_link import (
    check_bandwidth,
    check_batch_copy,
    check_link_curve,
    check_pcie,
)
from hicache_nsa.doctor.chosen_gpu import chosen_pci, chosen_row, gpu_link
from hicache_nsa.doctor.facts import INTERRUPTED, Curve, Facts, Hardware, Link, Measured

NO_CUDA = changed(GPU_MACHINE, cuda={"problem": "CUDA says no", "driver": 0})


def said(finding: Finding | None) -> Finding:
    assert finding is not None
    return finding


def with_link(link: Link, h2d: float = 10e9, d2h: float = 10e9) -> Facts:
    hardware = {"pci": (replace(GPU, link=link),), "smi": (replace(ROW, link=Link()),)}
    return changed(GPU_MACHINE, hardware=hardware, measured={"h2d": h2d, "d2h": d2h})


def test_the_driver() -> None:
    line = said(check_driver(GPU_MACHINE))
    assert (line.verdict, line.found) == (OK, "580.159.04, CUDA up to 13.0")
    by_smi = changed(GPU_MACHINE, hardware={"driver": None})
    assert said(check_driver(by_smi)).found == "580.159.04, CUDA up to 13.0"
    hidden = changed(by_smi, hardware={"smi": ()})
    assert said(check_driver(hidden)).found == "version unknown, CUDA up to 13.0"
    assert check_driver(CPU_MACHINE) is None


def test_no_driver() -> None:
    bare = Hardware((GPU,))
    line = said(check_driver(replace(NO_CUDA, hardware=bare)))
    assert (line.verdict, line.fix) == (FAIL, "install NVIDIA's driver")
    assert said(check_driver(replace(CPU_MACHINE, hardware=bare))).verdict == WARN
    assert check_driver(replace(NO_CUDA, hardware=Hardware())) is None  # the GPU's line says it


def test_a_gpu() -> None:
    line = said(check_gpu(GPU_MACHINE))
    assert (line.verdict, line.found) == (OK, "NVIDIA H200, 140.40 GiB, compute capability 9.0")
    silent = changed(GPU_MACHINE, hardware={"smi": (), "smi_problem": "no nvidia-smi"})
    assert said(check_gpu(silent)).verdict == OK
    assert "no nvidia-smi" in said(check_gpu(silent)).meaning
    another = changed(GPU_MACHINE, hardware={"smi": (replace(ROW, uuid="f" * 32),)})
    assert "it lists others" in said(check_gpu(another)).meaning
    no_core = changed(GPU_MACHINE, software={"build": {"cuda": False}})
    assert check_gpu(no_core) is None  # the package's line says it


@pytest.mark.parametrize(
    ("hardware", "cuda", "fix"),
    [
        ({}, {"problem": "There is no device 'cuda:7': 1 GPUs are here."}, "--device"),
        ({"pci": (), "device_files": (), "smi": ()}, {"problem": "none"}, "--device cpu"),
        ({"device_files": ()}, {"problem": "none"}, "--gpus all"),
        ({}, {"problem": "(cudaErrorNoDevice)", "visible": ""}, "unset CUDA_VISIBLE_DEVICES"),
        ({}, {"problem": "CUDA driver version is insufficient"}, "update NVIDIA's driver"),
        ({}, {"problem": "something else", "visible": "0"}, "run nvidia-smi"),
    ],
)
def test_a_gpu_that_cuda_cannot_use(
    hardware: dict[str, Any], cuda: dict[str, Any], fix: str
) -> None:
    line = said(check_gpu(changed(GPU_MACHINE, hardware=hardware, cuda=cuda)))
    assert line.verdict == FAIL and fix in str(line.fix)
    assert line.found == cuda["problem"]


def test_a_gpu_too_old_for_the_kernels() -> None:
    facts = changed(
        GPU_MACHINE,
        hardware={"smi": (replace(ROW, capability="7.5"),)},
        measured={"problem": "Loading the kernels failed"},
    )
    line = said(check_gpu(facts))
    assert line.verdict == FAIL and str(line.fix).endswith("CUDA_ARCHITECTURES=75")
    assert said(check_gpu(changed(facts, measured={"problem": None}))).verdict == OK
    odd = changed(facts, hardware={"smi": (replace(ROW, capability="[N/A]"),)})
    assert said(check_gpu(odd)).verdict == OK


def test_a_cpu_needs_no_gpu() -> None:
    assert said(check_gpu(CPU_MACHINE)).found == "none of NVIDIA's"
    beside = changed(CPU_MACHINE, hardware={"pci": (GPU, GPU)})
    assert said(check_gpu(beside)).found == "2 of NVIDIA's, not asked about"


def test_the_link() -> None:
    line = said(check_pcie(GPU_MACHINE))
    assert (line.verdict, line.found) == (OK, "PCIe 5 x16, at most PCIe 5 x16")
    assert "63 GB/s" in line.meaning
    assert check_pcie(CPU_MACHINE) is None and check_pcie(NO_CUDA) is None


def test_a_link_with_half_of_its_lanes() -> None:
    line = said(check_pcie(with_link(Link(5, 5, 8, 16))))
    assert line.verdict == WARN and "8 of 16 lanes: loads take 2 times" in line.meaning


def test_a_link_that_is_slower_than_it_could_be() -> None:
    slow = Link(3, 5, 16, 16)
    line = said(check_pcie(with_link(slow)))
    assert line.verdict == WARN and "BIOS" in str(line.fix)
    assert said(check_pcie(with_link(slow, 54e9, 54e9))).verdict == OK  # asleep again by then


def test_a_link_that_is_not_shown() -> None:
    assert said(check_pcie(with_link(Link()))).found == "unknown"
    assert said(check_pcie(with_link(Link(None, 4, None, 16)))).found == "at most PCIe 4 x16"


def test_sysfs_first_then_nvidia_smi() -> None:
    other = Link(4, 4, 8, 8)
    facts = changed(GPU_MACHINE, hardware={"smi": (replace(ROW, link=other),)})
    assert gpu_link(facts) == GPU.link
    facts = changed(facts, hardware={"pci": (replace(GPU, link=Link(None, 5, 16, 16)),)})
    assert gpu_link(facts) == other
    facts = changed(facts, hardware={"smi": ()})
    assert gpu_link(facts) == Link(None, 5, 16, 16)


def test_the_gpu_among_several() -> None:
    far = replace(GPU, address="0000:9a:00.0", node=1)
    row = replace(ROW, uuid="e" * 32, address=far.address)
    both = changed(GPU_MACHINE, hardware={"pci": (GPU, far), "smi": (ROW, row)})
    assert (chosen_row(both), chosen_pci(both)) == (ROW, GPU)
    second = changed(both, cuda={"uuid": row.uuid})
    assert (chosen_row(second), chosen_pci(second)) == (row, far)
    by_bus = changed(both, cuda={"bus": 0x9A}, hardware={"smi": ()})
    assert chosen_pci(by_bus) == far
    twins = (GPU, replace(GPU, address=f"0001{ADDRESS[4:]}"))
    assert chosen_pci(changed(by_bus, cuda={"bus": 0x1B}, hardware={"pci": twins})) is None


def test_what_was_measured() -> None:
    line = said(check_bandwidth(GPU_MACHINE))
    assert (line.verdict, line.found) == (OK, "h2d 54.5 GB/s, d2h 54.7 GB/s")
    assert f"load in {8192 * 48_068 / 54.5e9 * 1e3:.1f} ms" in line.meaning
    assert said(check_bandwidth(CPU_MACHINE)).verdict == OK


@pytest.mark.parametrize(
    ("h2d", "d2h", "verdict"),
    [(40e9, 40e9, OK), (30e9, 55e9, WARN), (55e9, 30e9, WARN), (400e9, 400e9, OK)],
)
def test_a_slow_direction(h2d: float, d2h: float, verdict: str) -> None:
    line = said(check_bandwidth(changed(GPU_MACHINE, measured={"h2d": h2d, "d2h": d2h})))
    assert line.verdict == verdict
    if verdict == WARN:
        assert line.meaning.startswith("48% of what PCIe 5 x16 can do.")


def test_slow_is_nothing_on_a_cpu_or_an_unknown_link() -> None:
    slow = Measured(1e9, 1e9, "so often")
    assert said(check_bandwidth(replace(CPU_MACHINE, measured=slow))).verdict == OK
    assert said(check_bandwidth(with_link(Link(), 1e9, 1e9))).verdict == OK


def test_nothing_was_measured() -> None:
    failed = changed(GPU_MACHINE, measured={"problem": "no memory", "h2d": None, "d2h": None})
    line = said(check_bandwidth(failed))
    assert line.verdict == FAIL and line.found == "no figures: no memory"
    assert "hicache bench transfer --device cuda" in str(line.fix)
    ended = changed(failed, measured={"problem": INTERRUPTED})
    assert said(check_bandwidth(ended)).fix == "run hicache doctor again"
    assert check_bandwidth(NO_CUDA) is None  # the GPU's line says it


@pytest.mark.parametrize(
    ("runtime", "driver", "fix"),
    [(12080, 13000, "toolkit of CUDA 13"), (13000, 12080, "update the driver"), (13010, 13020, "")],
)
def test_batch_copies(runtime: int, driver: int, fix: str) -> None:
    cuda = {"runtime": runtime, "driver": driver}
    line = said(check_batch_copy(changed(GPU_MACHINE, cuda=cuda)))
    assert line.verdict == (WARN if fix else OK)
    assert fix in (line.fix or "")


def test_batch_copies_of_no_gpu() -> None:
    assert check_batch_copy(CPU_MACHINE) is None and check_batch_copy(NO_CUDA) is None


def test_a_kept_curve() -> None:
    line = said(check_link_curve(GPU_MACHINE))
    assert line.verdict == OK
    assert line.found == (
        "curve.json, 2 hours old: h2d 54.0 GB/s, d2h 54.9 GB/s, 49,152 scattered bytes in 0.90 us"
    )
    assert check_link_curve(CPU_MACHINE) is None and check_link_curve(NO_CUDA) is None


def test_a_kept_curve_that_no_longer_holds() -> None:
    line = said(check_link_curve(changed(GPU_MACHINE, curve={"d2h": 20e9})))
    assert line.verdict == WARN and line.meaning.startswith("d2h runs at 54.7 GB/s now")
    assert "hicache bench link --again" in str(line.fix)
    unmeasured = changed(GPU_MACHINE, measured={"h2d": None, "d2h": None})
    assert said(check_link_curve(unmeasured)).verdict == OK


def test_no_curve_is_kept() -> None:
    line = said(check_link_curve(replace(GPU_MACHINE, curve=Curve("c.json", True))))
    assert (line.verdict, line.found) == (OK, "none is kept yet: c.json")
    line = said(check_link_curve(replace(GPU_MACHINE, curve=Curve("c.json", False))))
    assert line.verdict == WARN and "XDG_CACHE_HOME" in str(line.fix)
