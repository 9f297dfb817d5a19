"""Readers over trees of system files, and over what programs print."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_system import GIB, MIB

from hicache_nsa import _core, link_curve
from hicache_nsa.doctor import read_gpus, read_software, system
from hicache_nsa.doctor.facts import CudaDevice, HugePages, Link, SharedMemory
from hicache_nsa.doctor.read_curve import read_curve
from hicache_nsa.doctor.read_gpus import parse_identity, parse_smi, read_cuda, read_hardware
from hicache_nsa.doctor.read_memory import (
    read_huge_pages,
    read_memory,
    read_numa,
    read_shared_memory,
)
from hicache_nsa.doctor.read_software import satisfies, torch_cuda_of, wanted_versions
from hicache_nsa.doctor.system import number_list, run_command, whole_number

UUID = "0123456789abcdef0123456789abcdef"


# -- GPUs -----------------------------------------------------------------------------------------


def test_a_machine_without_a_gpu(machine: Any) -> None:
    found = read_hardware(machine.system, ask_smi=False)
    assert not found.any_gpu and found.driver is None and machine.asked == []


def test_a_machine_with_one(machine: Any) -> None:
    machine.add_gpu()
    found = read_hardware(machine.system, ask_smi=True)
    (gpu,) = found.pci
    assert (gpu.address, gpu.link, gpu.node) == ("0000:00:06.0", Link(5, 5, 16, 16), None)
    assert found.device_files == ("nvidia0",) and found.driver == "580.159.04"
    (row,) = found.smi
    assert (row.uuid, row.address, row.name) == (UUID, "0000:00:06.0", "NVIDIA H200")
    assert (row.memory_mib, row.capability, row.driver) == (143_771, "9.0", "580.159.04")
    assert row.link == Link(5, 5, 16, 16) and found.smi_problem is None
    assert machine.asked[0][0] == "nvidia-smi" and len(machine.asked) == 1


def test_only_display_controllers_of_nvidia_are_gpus(machine: Any) -> None:
    machine.pci("0000:02:00.0", vendor="0x1002")
    machine.pci("0000:03:00.0", kind="0x040300")  # its audio function
    machine.pci("0000:04:00.0", kind="0x030000", numa_node=1)
    (gpu,) = read_hardware(machine.system, ask_smi=False).pci
    assert (gpu.address, gpu.node, gpu.link) == ("0000:04:00.0", 1, Link())


@pytest.mark.parametrize(
    ("speed", "width", "link"),
    [
        ("2.5 GT/s PCIe", "1", (1, 1)),
        ("16.0 GT/s PCIe", "8", (4, 8)),
        ("64.0 GT/s PCIe", "16", (6, 16)),
        ("16 GT/s", "16", (4, 16)),
        ("Unknown", "0", (None, None)),
        ("", "255", (None, None)),
        ("99 GT/s", "63", (None, None)),
        ("fast", "-1", (None, None)),
    ],
)
def test_how_the_kernel_writes_links(machine: Any, speed: str, width: str, link: Any) -> None:
    machine.pci("0000:04:00.0", current_link_speed=speed, current_link_width=width)
    (gpu,) = read_hardware(machine.system, ask_smi=False).pci
    assert (gpu.link.generation, gpu.link.lanes) == link


def test_the_driver_by_its_other_file(machine: Any) -> None:
    machine.write(
        "/proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\n"
        "GCC version:  gcc version 15.3.0 (GCC)\n",
    )
    assert read_hardware(machine.system, ask_smi=False).driver == "580.159.04"


@pytest.mark.parametrize("error", [OSError("no nvidia-smi"), RuntimeError("it failed")])
def test_nvidia_smi_that_fails(machine: Any, error: Exception) -> None:
    machine.add_gpu()
    machine.smi = error
    found = read_hardware(machine.system, ask_smi=True)
    assert (found.smi, found.smi_problem) == ((), str(error))
    assert len(found.pci) == 1


def test_odd_rows_of_nvidia_smi() -> None:
    text = "No devices were found\n\n" + ", ".join(
        ["GPU-AB-CD", "00000000:1B:00.0", "X", "[N/A]", "[N/A]", "1.2", *["[N/A]"] * 4]
    )
    (row,) = parse_smi(text)
    assert (row.uuid, row.address, row.memory_mib) == ("abcd", "0000:1b:00.0", None)
    assert row.link == Link()


def test_the_cores_name_for_a_gpu() -> None:
    found = parse_identity(f"NVIDIA H200 NVL {UUID} bus 27 CUDA 13000 runtime 13010")
    assert found == CudaDevice("NVIDIA H200 NVL", UUID, 27, 13000, 13010)
    with pytest.raises(ValueError, match="unknown form: 'GPU 1'"):
        parse_identity("GPU 1")


def test_a_gpu_that_the_core_does_not_see(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(device: str) -> str:
        raise RuntimeError(f"no {device}")

    monkeypatch.setattr(read_gpus, "_core", SimpleNamespace(cuda_device_identity=refuse))
    machine.environ["CUDA_VISIBLE_DEVICES"] = ""
    assert read_cuda(machine.system, "cuda:1") == CudaDevice(problem="no cuda:1", visible="")
    assert read_cuda(machine.system, "cpu") == CudaDevice()
    monkeypatch.setattr(
        read_gpus,
        "_core",
        SimpleNamespace(cuda_device_identity=lambda device: f"X {UUID} bus 0 CUDA 1 runtime 2"),
    )
    assert read_cuda(machine.system, "cuda").name == "X"


# -- memory ---------------------------------------------------------------------------------------


def test_memory_and_ranks(machine: Any) -> None:
    machine.environ["LOCAL_WORLD_SIZE"] = "4"
    machine.mount("/sys/fs/cgroup", "cgroup2")
    machine.member("0::/box")
    machine.group("/sys/fs/cgroup/box", 64 * GIB, 4 * GIB)
    found = read_memory(machine.system)
    assert found.budget.source == "/sys/fs/cgroup/box/memory.max"
    assert found.budget.allowed == (60 * GIB - 64 * GIB // 20) // 4
    assert found.ranks == "LOCAL_WORLD_SIZE=4"


def test_nodes(machine: Any) -> None:
    machine.node(0, "10 21", "0-3,8")
    machine.node(1, "21 10", "4-7")
    machine.write("/sys/devices/system/node/node_x/distance", "1")
    machine.write("/proc/self/status", "Name:\tx\nCpus_allowed_list:\t2-5\nMems_allowed_list:\t1\n")
    found = read_numa(machine.system)
    assert found.distances == {0: (10, 21), 1: (21, 10)}
    assert found.cpus == {0: {0, 1, 2, 3, 8}, 1: {4, 5, 6, 7}}
    assert (found.allowed_nodes, found.allowed_cpus) == ({1}, {2, 3, 4, 5})


def test_no_nodes(tmp_path: Path) -> None:
    found = read_numa(system.System(tmp_path))
    assert (found.distances, found.allowed_nodes) == ({}, frozenset())


def test_huge_pages(machine: Any) -> None:
    machine.huge_pages(2 * MIB, total=10, free=4)
    machine.huge_pages(GIB, total=0, free=0)
    machine.write("/sys/kernel/mm/hugepages/hugepages-64kB/other", "")
    assert read_huge_pages(machine.system) == HugePages("madvise", {2 * MIB: (10, 4), GIB: (0, 0)})


def test_no_huge_pages(tmp_path: Path) -> None:
    assert read_huge_pages(system.System(tmp_path)) == HugePages(None, {})


def test_shared_memory(machine: Any) -> None:
    assert read_shared_memory(machine.system) == SharedMemory(128 * GIB, 100 * GIB)
    machine.shared = None
    assert read_shared_memory(machine.system) == SharedMemory(None, None)


# -- the link curve -------------------------------------------------------------------------------


def test_the_curve(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    points = _core.LinkCurve.typical().points()
    fake = SimpleNamespace(
        cuda_device_identity=lambda device: "GPU 1",
        build_info=_core.build_info,
        LinkCurve=_core.LinkCurve,
    )
    monkeypatch.setattr(link_curve, "_core", fake)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    none = read_curve("cuda")
    assert none.h2d is None and none.writable and none.age_seconds is None
    assert not (tmp_path / "cache").exists()  # nothing is written
    file = Path(none.file)
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"identity": link_curve.identity_of("cuda"), "points": points}))
    os.utime(file, (0, 0))
    kept = read_curve("cuda")
    assert kept.age_seconds is not None and kept.age_seconds > 1e9
    assert (kept.h2d, kept.d2h) == (
        pytest.approx(54.2e9, rel=1e-2),
        pytest.approx(54.8e9, rel=1e-2),
    )
    assert (kept.piece_bytes, kept.piece_seconds) == points["h2d"]["piece"][1]
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert not read_curve("cuda").writable


# -- software -------------------------------------------------------------------------------------


def test_this_process() -> None:
    found = read_software.read_software()
    assert found.version == _core.build_info()["version"]
    assert found.installed["numpy"] is not None
    assert found.wanted["torch"] and found.wanted["vllm"] and found.wanted["numpy"]


def test_what_the_package_asks_for() -> None:
    lines = [
        "numpy>=1.23",
        "click>=8.1",
        'torch<3,>=2.6; extra == "torch"',
        'torch; extra == "other"',
        "vllm (<0.34,>=0.32) ; extra == 'vllm'",
        'transformers[torch]>=5.17 ; extra == "test"',
        'hicache-nsa[demo]; extra == "test"',
    ]
    assert wanted_versions(lines) == {
        "numpy": ">=1.23",
        "torch": "<3,>=2.6",
        "vllm": "<0.34,>=0.32",
        "transformers": ">=5.17",
    }


@pytest.mark.parametrize(
    ("found", "wanted", "holds"),
    [
        ("2.6.0", "<3,>=2.6", True),
        ("2.6", ">=2.6.0", True),
        ("3.0.0", "<3,>=2.6", False),
        ("2.5.9", "<3,>=2.6", False),
        ("2.13.0+cpu", ">=2.6", True),
        ("0.33.1rc2", "<0.34,>=0.32", True),
        ("1.2", "==1.2.0", True),
        ("1.3", "==1.2", False),
        ("1.2", ">1.2", False),
        ("1.3", "<=1.2", False),
        ("1.0", "", True),
        ("1.0", "~=2.0", True),
    ],
)
def test_versions(found: str, wanted: str, holds: bool) -> None:
    assert satisfies(found, wanted) is holds


@pytest.mark.parametrize(
    ("text", "cuda"),
    [
        ("__version__ = '2.9'\ncuda: Optional[str] = '13.0'\nhip = None\n", "13.0"),
        ("cuda = '12.8'\n", "12.8"),
        ("cuda: Optional[str] = None\n", None),
        ("", None),
    ],
)
def test_the_cuda_of_a_torch(text: str, cuda: str | None) -> None:
    assert torch_cuda_of(text) == cuda


def test_a_torch_that_is_not_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise SystemExit")
    (tmp_path / "torch" / "version.py").write_text("cuda = '12.9'")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert read_software.read_software().torch_cuda == "12.9"


# -- the system -----------------------------------------------------------------------------------


def test_programs() -> None:
    assert run_command([sys.executable, "-c", "print(3)"]) == "3\n"
    with pytest.raises(RuntimeError, match=r"ended with 9: no driver"):
        run_command([sys.executable, "-c", "print('no driver'); raise SystemExit(9)"])
    with pytest.raises(OSError, match="no-such-program"):
        run_command(["no-such-program"])


def test_a_program_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "SMI_SECONDS", 0.2)
    with pytest.raises(OSError, match=r"did not answer within 0\.2 s"):
        run_command([sys.executable, "-c", "import time; time.sleep(60)"])


def test_numbers() -> None:
    assert [whole_number(text) for text in ("7", "", "-1", "x", "9" * 30)] == [7, *[None] * 4]
    assert number_list("0-2,5") == {0, 1, 2, 5}
    assert number_list("") == number_list("x-3,-") == number_list("3-1") == frozenset()
    assert len(number_list("0-99999999999")) == 0


def test_the_limit_of_locked_memory() -> None:
    limit = system.locked_limit()
    assert limit is None or limit >= 0
