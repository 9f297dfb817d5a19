"""Which NUMA node a host pool's memory is taken from."""

from __future__ import annotations

from pathlib import Path

from hicache_nsa import _core

SYSTEM = Path("/sys")


def node_for(numa: str | int, device: str) -> int:
    """The node that ``numa`` means for copies with ``device``; -1: none in particular.

    ``auto`` is the GPU's own node, where the machine has several and says which it is.
    """
    if not isinstance(numa, str):
        return numa
    if numa == "off" or device == "cpu" or count_nodes() < 2:
        return -1
    try:
        place = SYSTEM / "bus/pci/devices" / _core.cuda_device_bus_id(device).lower() / "numa_node"
        return max(int(place.read_text(encoding="ascii")), -1)
    except (OSError, RuntimeError, ValueError):
        return -1


def count_nodes() -> int:
    """NUMA nodes of this machine."""
    return len(list((SYSTEM / "devices/system/node").glob("node[0-9]*")))
