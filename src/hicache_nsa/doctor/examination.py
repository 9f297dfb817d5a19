"""``examine``: judge each line of what was read. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from types import MappingProxyType

from hicache_nsa.doctor import check_gpu, check_link, check_memory, check_software
from hicache_nsa.doctor.facts import INTERRUPTED, Broken, Facts
from hicache_nsa.doctor.finding import Finding, warn
from hicache_nsa.doctor.report import DoctorReport

Check = Callable[[Facts], Finding | None]

CHECKS: Mapping[str, Check] = MappingProxyType(
    {
        "package": check_software.check_package,
        "python": check_software.check_python,
        "numpy": check_software.check_numpy,
        "torch": check_software.check_torch,
        "driver": check_gpu.check_driver,
        "gpu": check_gpu.check_gpu,
        "pcie": check_link.check_pcie,
        "bandwidth": check_link.check_bandwidth,
        "batch copy": check_link.check_batch_copy,
        "link curve": check_link.check_link_curve,
        "memory": check_memory.check_memory,
        "cgroup": check_memory.check_cgroup,
        "memlock": check_memory.check_locked_memory,
        "numa": check_memory.check_numa,
        "huge pages": check_memory.check_huge_pages,
        "shared memory": check_memory.check_shared_memory,
        **{name: check_software.extra_check(name) for name in check_software.EXTRAS},
    }
)


def examine(facts: Facts, checks: Mapping[str, Check] = CHECKS) -> DoctorReport:
    """Every line that there is something to say about. A check that breaks is a warning."""
    lines: dict[str, Finding] = {}
    for name, check in checks.items():
        try:
            finding = check(facts)
        except Exception as error:
            finding = _broken(error)
        if finding is not None:
            lines[name] = finding
    measured = None if isinstance(facts.measured, Broken) else facts.measured
    curve = None if isinstance(facts.curve, Broken) else facts.curve
    groups = [getattr(facts, field.name) for field in fields(facts)]
    cut_short = any(isinstance(each, Broken) and each.interrupted for each in groups)
    cut_short |= measured is not None and measured.problem == INTERRUPTED
    return DoctorReport(facts.device, lines, measured, curve, cut_short)


def _broken(error: Exception) -> Finding:
    return warn(
        f"could not be checked: {type(error).__name__}: {error}",
        "The other lines do not depend on it.",
        "report it with the output of hicache doctor --json -",
    )
