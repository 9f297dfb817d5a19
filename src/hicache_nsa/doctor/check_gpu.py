"""Checks of the driver and the GPU. Pure; None: there is nothing to say."""

from __future__ import annotations

from hicache_nsa.doctor.check_software import cuda_version
from hicache_nsa.doctor.chosen_gpu import chosen_row
from hicache_nsa.doctor.facts import Facts
from hicache_nsa.doctor.finding import Finding, fail, ok, warn
from hicache_nsa.sizes import format_size

OLDEST_CAPABILITY = (8, 0)  # of a build with the project's own settings


def check_driver(facts: Facts) -> Finding | None:
    """NVIDIA's driver."""
    hardware = facts.hardware
    seen = hardware.driver or next((row.driver for row in hardware.smi), None)
    if seen is not None:
        runs = f", CUDA up to {cuda_version(facts.cuda.driver)}" if facts.cuda.driver else ""
        return ok(f"{seen}{runs}", "The driver is loaded.")
    if not hardware.any_gpu:
        return None
    if facts.on_gpu and facts.cuda.problem is None:
        return ok(
            f"version unknown, CUDA up to {cuda_version(facts.cuda.driver)}", "The driver answers."
        )
    return (fail if facts.on_gpu else warn)(
        "none", "CUDA reaches no GPU without NVIDIA's driver.", "install NVIDIA's driver"
    )


def check_gpu(facts: Facts) -> Finding | None:
    """The GPU itself, and whether CUDA can use it. None: this build has no CUDA to ask."""
    if not facts.on_gpu:
        count = len(facts.hardware.pci) or len(facts.hardware.device_files)
        seen = f"{count} of NVIDIA's, not asked about" if count else "none of NVIDIA's"
        return ok(seen, "The CPU backend: copies run from host memory to host memory.")
    if not facts.software.build["cuda"]:
        return None
    if facts.cuda.problem is not None:
        return fail(facts.cuda.problem, "CUDA cannot use it.", _fix_of_no_gpu(facts))
    row = chosen_row(facts)
    if row is None:
        return ok(
            facts.cuda.name,
            "CUDA uses it; nvidia-smi says nothing of it "
            f"({facts.hardware.smi_problem or 'it lists others'}).",
        )
    memory = "" if row.memory_mib is None else f", {format_size(row.memory_mib << 20)}"
    found = f"{facts.cuda.name}{memory}, compute capability {row.capability}"
    if facts.measured.problem is not None and _capability(row.capability) < OLDEST_CAPABILITY:
        return fail(
            found,
            "Older than what the kernels are built for, 8.0 and up.",
            "pip install . -C cmake.define.CMAKE_CUDA_ARCHITECTURES="
            + row.capability.replace(".", ""),
        )
    return ok(found, "CUDA uses it.")


def _fix_of_no_gpu(facts: Facts) -> str:
    hardware = facts.hardware
    problem = str(facts.cuda.problem)
    if problem.startswith("There is no device"):
        return "give --device the number of one that is there"
    if not hardware.any_gpu:
        return "use --device cpu: there is no GPU of NVIDIA's here"
    if hardware.driver is not None and not hardware.device_files:
        return "start the container with --gpus all: the driver is loaded, no GPU is given to it"
    if facts.cuda.visible is not None and "NoDevice" in problem:
        return f"unset CUDA_VISIBLE_DEVICES, which is {facts.cuda.visible!r}"
    if "insufficient" in problem:
        return "update NVIDIA's driver: this build's CUDA is newer"
    return "run nvidia-smi: it says which GPUs there are, and whether the driver answers"


def _capability(text: str) -> tuple[int, ...]:
    parts = text.split(".")
    return tuple(map(int, parts)) if all(part.isdigit() for part in parts) else OLDEST_CAPABILITY
