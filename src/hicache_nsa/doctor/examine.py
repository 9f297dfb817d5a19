"""Read the facts, judge each line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType

from hicache_nsa.doctor import check_gpu, check_link, check_memory, check_software
from hicache_nsa.doctor.facts import (
    INTERRUPTED,
    Broken,
    Curve,
    Facts,
    Hardware,
    Locked,
    Measured,
    Software,
    guarded,
)
from hicache_nsa.doctor.finding import FAIL, VERDICTS, Finding, warn
from hicache_nsa.doctor.measure import measure
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


@dataclass(frozen=True)
class DoctorReport:
    """lines: name -> finding, in the order of CHECKS. measured, curve: None: could not be read.

    interrupted: ^C while it read or measured.
    """

    device: str
    lines: Mapping[str, Finding]
    measured: Measured | None
    curve: Curve | None
    interrupted: bool

    @property
    def passed(self) -> bool:
        """No line failed, and nothing was cut short."""
        return not self.interrupted and not self.count(FAIL)

    def count(self, verdict: str) -> int:
        """Lines with that verdict."""
        return sum(line.verdict == verdict for line in self.lines.values())

    def to_json(self) -> dict[str, object]:
        """The report as the command's JSON shows it, without what every command reports."""
        return {
            "device": self.device,
            "passed": self.passed,
            "interrupted": self.interrupted,
            "counts": {verdict: self.count(verdict) for verdict in VERDICTS},
            "measured": _rates(self.measured),
            "link_curve": None
            if self.curve is None
            else {
                "file": self.curve.file,
                "age_seconds": self.curve.age_seconds,
                **_rates(self.curve),
            },
            "lines": [
                {
                    "name": name,
                    "verdict": line.verdict,
                    "found": line.found,
                    "meaning": line.meaning,
                    "fix": line.fix,
                }
                for name, line in self.lines.items()
            ],
        }


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
        cuda=guarded(lambda: read_cuda(device)),
        measured=measured,
        curve=None if device == "cpu" else guarded(lambda: read_curve(device)),
        memory=guarded(lambda: read_memory(here)),
        locked=guarded(lambda: Locked(here.locked_limit())),
        numa=guarded(lambda: read_numa(here)),
        huge_pages=guarded(lambda: read_huge_pages(here)),
        shared_memory=guarded(lambda: read_shared_memory(here)),
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


def _device(software: Software, hardware: Hardware) -> str:
    """The GPU where there is one that this build can use."""
    try:
        return "cuda" if software.build["cuda"] and hardware.any_gpu else "cpu"
    except Exception:  # what could not be read is said on its own line
        return "cpu"


def _broken(error: Exception) -> Finding:
    return warn(
        f"could not be checked: {type(error).__name__}: {error}",
        "The other lines do not depend on it.",
        "report it with the output of hicache doctor --json -",
    )


def _rates(of: Measured | Curve | None) -> dict[str, float | None]:
    h2d, d2h = (None, None) if of is None else (of.h2d, of.d2h)
    return {
        "h2d_gbps": None if h2d is None else h2d / 1e9,
        "d2h_gbps": None if d2h is None else d2h / 1e9,
    }
