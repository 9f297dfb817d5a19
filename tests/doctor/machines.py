"""Facts of machines: one GPU where all is well, and what the tests change in them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hicache_nsa.doctor.facts import (
    CudaDevice,
    Curve,
    Facts,
    Hardware,
    HugePages,
    Link,
    Locked,
    Measured,
    Memory,
    Numa,
    PciGpu,
    SharedMemory,
    SmiGpu,
    Software,
)
from hicache_nsa.memory_budget import MemoryLimit, MemoryLimits, budget

GIB = 1 << 30
ADDRESS = "0000:1b:00.0"
UUID = "0123456789abcdef0123456789abcdef"
FULL = Link(5, 5, 16, 16)
BUILD: dict[str, str | bool] = {
    "version": "0.1.0",
    "debug": False,
    "cuda": True,
    "compiler": "12.2.0",
}
INSTALLED: dict[str, str | None] = {
    "numpy": "2.1.0",
    "torch": "2.9.0",
    "rich": "14.0.0",
    "tokenizers": "0.22.1",
    "transformers": "5.18.0",
    "vllm": "0.32.1",
    "sglang": None,
    "matplotlib": "3.10.7",
    "prometheus-client": None,
    "pyzmq": None,
    "msgspec": None,
}
WANTED = {
    "numpy": ">=1.23",
    "torch": "<3,>=2.6",
    "rich": ">=13",
    "tokenizers": "<1,>=0.20",
    "transformers": "<6,>=5.17",
    "vllm": "<0.34,>=0.32",
    "sglang": ">=0.5.23",
    "matplotlib": "<4,>=3.7",
    "prometheus-client": "<1,>=0.20",
    "pyzmq": ">=26",
    "msgspec": ">=0.19",
}
GPU = PciGpu(ADDRESS, FULL, 0)
ROW = SmiGpu(UUID, ADDRESS, "NVIDIA H200", 143_771, "9.0", "580.159.04", FULL)
NODES = Numa(
    {0: (10, 21), 1: (21, 10)},
    {0: frozenset({0, 1}), 1: frozenset({2, 3})},
    frozenset({0, 1}),
    frozenset({0, 1, 2, 3}),
)


def memory_of(*limits: MemoryLimit, ranks: int = 1) -> Memory:
    found = MemoryLimits(limits)
    return Memory(found, budget(found, ranks), "LOCAL_WORLD_SIZE is not set")


def machine_limit(available: int) -> MemoryLimit:
    return MemoryLimit("/proc/meminfo (MemAvailable)", 512 * GIB, available)


GPU_MACHINE = Facts(
    device="cuda",
    software=Software("0.1.0", BUILD, "CPython 3.12.3", INSTALLED, WANTED, "13.0"),
    hardware=Hardware((GPU,), ("nvidia0",), "580.159.04", (ROW,)),
    cuda=CudaDevice("NVIDIA H200", UUID, 0x1B, 13000, 13000),
    measured=Measured(54.5e9, 54.7e9, "so often"),
    curve=Curve("curve.json", True, 7200.0, 54.0e9, 54.9e9, 49_152, 0.9e-6),
    memory=memory_of(machine_limit(400 * GIB)),
    locked=Locked(None),
    numa=NODES,
    huge_pages=HugePages("madvise", {2 << 20: (0, 0)}),
    shared_memory=SharedMemory(64 * GIB, 64 * GIB),
)
CPU_MACHINE = replace(
    GPU_MACHINE,
    device="cpu",
    hardware=Hardware(),
    cuda=CudaDevice(),
    curve=None,
)


def changed(facts: Facts, **groups: dict[str, Any]) -> Facts:
    """``facts`` with fields of groups changed: ``changed(f, cuda={"driver": 12080})``."""
    return replace(
        facts, **{name: replace(getattr(facts, name), **new) for name, new in groups.items()}
    )
