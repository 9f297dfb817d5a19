"""GPUs: on the PCI bus, of the driver, as nvidia-smi lists them, as the C++ core sees one."""

from __future__ import annotations

import re

from hicache_nsa import _core
from hicache_nsa.doctor.facts import CudaDevice, Hardware, Link, PciGpu, SmiGpu
from hicache_nsa.doctor.system import System, whole_number

NVIDIA = "0x10de"
DISPLAY = "0x03"  # classes of display and 3-D controllers
PCI = "/sys/bus/pci/devices"
GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}  # GT/s a lane
MOST_LANES = 32
SMI_FIELDS = (
    "uuid,pci.bus_id,name,memory.total,compute_cap,driver_version,pcie.link.gen.current,"
    "pcie.link.gen.max,pcie.link.width.current,pcie.link.width.max"
)
_VERSION = re.compile(r"\b([0-9]{2,}\.[0-9]+(?:\.[0-9]+)?)\b")
_IDENTITY = re.compile(r"(.*) ([0-9a-f]{32}) bus (\d+) CUDA (\d+) runtime (\d+)")


def read_hardware(system: System, ask_smi: bool) -> Hardware:
    """ask_smi: run nvidia-smi, too."""
    pci = tuple(
        _pci_gpu(system, address)
        for address in system.names(PCI)
        if system.text(f"{PCI}/{address}/vendor") == NVIDIA
        and system.text(f"{PCI}/{address}/class").startswith(DISPLAY)
    )
    files = tuple(system.names("/dev", "nvidia[0-9]*"))
    smi: tuple[SmiGpu, ...] = ()
    problem = None
    if ask_smi:
        try:
            command = ["nvidia-smi", f"--query-gpu={SMI_FIELDS}", "--format=csv,noheader,nounits"]
            smi = parse_smi(system.run(command))
        except (OSError, RuntimeError) as error:
            problem = str(error)
    return Hardware(pci, files, _driver(system), smi, problem)


def parse_smi(text: str) -> tuple[SmiGpu, ...]:
    """The rows of SMI_FIELDS; lines of another form are passed over."""
    rows = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(SMI_FIELDS.split(",")):
            continue
        uuid, address, name, memory, capability, driver, *link = cells
        rows.append(
            SmiGpu(
                uuid.lower().removeprefix("gpu-").replace("-", ""),
                address.lower()[-12:],
                name,
                whole_number(memory),
                capability,
                driver,
                Link(*map(whole_number, link)),
            )
        )
    return tuple(rows)


def read_cuda(system: System, device: str) -> CudaDevice:
    """``cpu``, ``cuda`` or ``cuda:N``."""
    if device == "cpu":
        return CudaDevice()
    visible = system.environ.get("CUDA_VISIBLE_DEVICES")
    try:
        identity = _core.cuda_device_identity(device)
    except RuntimeError as error:
        return CudaDevice(problem=str(error), visible=visible)
    return parse_identity(identity)


def parse_identity(identity: str) -> CudaDevice:
    """``ValueError`` if the C++ core says it in another form."""
    match = _IDENTITY.fullmatch(identity)
    if match is None:
        raise ValueError(f"the core's name for the GPU is of an unknown form: {identity!r}")
    name, uuid, bus, driver, runtime = match.groups()
    return CudaDevice(name, uuid, int(bus), int(driver), int(runtime))


def _pci_gpu(system: System, address: str) -> PciGpu:
    folder = f"{PCI}/{address}"
    return PciGpu(
        address,
        Link(
            _generation(system.text(f"{folder}/current_link_speed")),
            _generation(system.text(f"{folder}/max_link_speed")),
            _lanes(system.text(f"{folder}/current_link_width")),
            _lanes(system.text(f"{folder}/max_link_width")),
        ),
        whole_number(system.text(f"{folder}/numa_node")),  # -1 where the system does not say
    )


def _generation(speed: str) -> int | None:
    """Of ``32.0 GT/s PCIe``."""
    try:
        return GENERATIONS.get(float(speed.split()[0]))
    except (ValueError, IndexError):
        return None


def _lanes(text: str) -> int | None:
    """0 and 63 or 255 stand for unknown."""
    number = whole_number(text)
    return number if number and number <= MOST_LANES else None


def _driver(system: System) -> str | None:
    """The version of NVIDIA's kernel driver."""
    version = system.text("/sys/module/nvidia/version")
    if version:
        return version
    found = _VERSION.search(system.text("/proc/driver/nvidia/version"))
    return found[1] if found else None
