from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[1] / "memory"))  # the tree of system files

from fake_system import GIB, FakeSystem

from hicache_nsa.doctor import System

H200 = "/sys/bus/pci/devices/0000:00:06.0"
SMI = (
    "GPU-01234567-89ab-cdef-0123-456789abcdef, 00000000:00:06.0, NVIDIA H200, 143771, 9.0, "
    "580.159.04, 5, 5, 16, 16\n"
)


class Machine(FakeSystem):
    """The files of a virtual machine with one H200, as the kernel and the driver write them."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.smi: str | Exception = SMI
        self.asked: list[list[str]] = []
        self.shared: tuple[int, int] | None = (128 * GIB, 100 * GIB)
        self.environ: dict[str, str] = {}
        self.meminfo(128 * GIB, 100 * GIB)
        self.write("/proc/self/status", "Cpus_allowed_list:\t0-15\nMems_allowed_list:\t0\n")
        self.write("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
        self.node(0, "10", "0-15")
        self.pci("0000:00:01.0", vendor="0x1af4", kind="0x018000")

    def add_gpu(self) -> None:
        self.pci(
            "0000:00:06.0",
            current_link_speed="32.0 GT/s PCIe",
            max_link_speed="32.0 GT/s PCIe",
            current_link_width=16,
            max_link_width=16,
            numa_node=-1,
        )
        self.write("/dev/nvidia0", "")
        self.write("/dev/nvidiactl", "")
        self.write("/sys/module/nvidia/version", "580.159.04\n")

    def pci(
        self, address: str, vendor: str = "0x10de", kind: str = "0x030200", **files: object
    ) -> None:
        for name, text in {"vendor": vendor, "class": kind, **files}.items():
            self.write(f"/sys/bus/pci/devices/{address}/{name}", f"{text}\n")

    def node(self, number: int, distances: str, cores: str) -> None:
        folder = f"/sys/devices/system/node/node{number}"
        self.write(f"{folder}/distance", f"{distances}\n")
        self.write(f"{folder}/cpulist", f"{cores}\n")

    def run(self, arguments: Sequence[str]) -> str:
        self.asked.append(list(arguments))
        if isinstance(self.smi, Exception):
            raise self.smi
        return self.smi

    def space(self, path: Path) -> Any:
        assert path == self.root / "dev/shm"
        if self.shared is None:
            raise FileNotFoundError(path)
        total, free = self.shared
        return SimpleNamespace(f_blocks=total // 4096, f_frsize=4096, f_bavail=free // 4096)

    @property
    def system(self) -> System:
        return System(self.root, self.environ, self.run, self.space, lambda: 65_536)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)
