"""``read_facts``: everything that the checks look at, read once."""

from __future__ import annotations

from hicache_nsa.doctor.facts import Facts, Hardware, Locked, Software, guarded
from hicache_nsa.doctor.measuring import measure
from hicache_nsa.doctor.read_curve import read_curve
from hicache_nsa.doctor.read_gpus import read_cuda, read_hardware
from hicache_nsa.doctor.read_memory import (
    read_huge_pages,
    read_memory,
    read_numa,
    read_shared_memory,
)
from hicache_nsa.doctor.read_software import read_software
from hicache_nsa.doctor.system import System


def read_facts(asked: str | None, system: System | None = None) -> Facts:
    """What there is; takes about two seconds, which it measures.

    asked: ``cpu``, ``cuda`` or ``cuda:N``; None: the GPU where there is one that this build can
    use, else the CPU.
    """
    here = System() if system is None else system
    software = guarded(read_software)
    hardware = guarded(lambda: read_hardware(here, ask_smi=False))
    device = asked or _device(software, hardware)
    measured = guarded(lambda: measure(device))
    if device != "cpu":  # the link right after copies: idle, it is slower
        hardware = guarded(lambda: read_hardware(here, ask_smi=True))
    return Facts(
        device=device,
        software=software,
        hardware=hardware,
        cuda=guarded(lambda: read_cuda(here, device)),
        measured=measured,
        curve=None if device == "cpu" else guarded(lambda: read_curve(device)),
        memory=guarded(lambda: read_memory(here)),
        locked=guarded(lambda: Locked(here.locked_limit())),
        numa=guarded(lambda: read_numa(here)),
        huge_pages=guarded(lambda: read_huge_pages(here)),
        shared_memory=guarded(lambda: read_shared_memory(here)),
    )


def _device(software: Software, hardware: Hardware) -> str:
    """The GPU where there is one that this build can use."""
    try:
        return "cuda" if software.build["cuda"] and hardware.any_gpu else "cpu"
    except Exception:  # what could not be read is said on its own line
        return "cpu"
