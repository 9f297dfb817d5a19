"""Which of the GPUs is the one that is examined, and its link. Pure."""

from __future__ import annotations

from hicache_nsa.doctor.facts import Facts, Link, PciGpu, SmiGpu


def chosen_row(facts: Facts) -> SmiGpu | None:
    """nvidia-smi's row of the GPU that is examined."""
    rows = facts.hardware.smi
    same = [row for row in rows if row.uuid == facts.cuda.uuid]
    return same[0] if same else None


def chosen_pci(facts: Facts) -> PciGpu | None:
    """Its place on the PCI bus: by nvidia-smi's address, else by the bus, where one is there."""
    row, gpus = chosen_row(facts), facts.hardware.pci
    same = [gpu for gpu in gpus if row is not None and gpu.address == row.address]
    same = same or [gpu for gpu in gpus if _bus(gpu.address) == facts.cuda.bus]
    return same[0] if len(same) == 1 else None


def gpu_link(facts: Facts) -> Link:
    """As sysfs has it; where that lacks something, as nvidia-smi does."""
    gpu, row = chosen_pci(facts), chosen_row(facts)
    link = gpu.link if gpu is not None else Link()
    if None not in (link.generation, link.most_generation, link.lanes, link.most_lanes):
        return link
    return row.link if row is not None and row.link != Link() else link


def _bus(address: str) -> int:
    return int(address.split(":")[1], 16)
