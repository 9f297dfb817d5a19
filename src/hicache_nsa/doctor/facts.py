"""What the doctor reads of a machine, before anything is judged. Frozen values.

A group that could not be read is a ``Broken`` in its place: whoever asks it for something gets the
error of the reading.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from hicache_nsa.memory_budget import Budget, MemoryLimits

T = TypeVar("T")
INTERRUPTED = "interrupted"  # the problem of a measurement that ^C ended


@dataclass(frozen=True)
class Software:
    """Versions; None: not installed. Nothing of it is imported to find out.

    version: of the distribution hicache-nsa. build: what the C++ core says of itself.
    installed: name -> version. wanted: name -> the versions that hicache-nsa asks for.
    torch_cuda: of torch's build, such as "13.0"; None: none, or no torch.
    """

    version: str | None
    build: Mapping[str, str | bool]
    python: str
    installed: Mapping[str, str | None]
    wanted: Mapping[str, str]
    torch_cuda: str | None = None


@dataclass(frozen=True)
class Link:
    """PCIe, now and at most: generation (1, 2 ...) and lanes; None: unknown."""

    generation: int | None = None
    most_generation: int | None = None
    lanes: int | None = None
    most_lanes: int | None = None


@dataclass(frozen=True)
class PciGpu:
    """address: as "0000:1b:00.0". node: NUMA node; None: the system does not say."""

    address: str
    link: Link
    node: int | None


@dataclass(frozen=True)
class SmiGpu:
    """A row of nvidia-smi. uuid: 32 hex digits."""

    uuid: str
    address: str
    name: str
    memory_mib: int | None
    capability: str
    driver: str
    link: Link


@dataclass(frozen=True)
class Hardware:
    """smi_problem: why nvidia-smi said nothing; None: it did, or was not asked."""

    pci: tuple[PciGpu, ...] = ()
    device_files: tuple[str, ...] = ()
    driver: str | None = None
    smi: tuple[SmiGpu, ...] = ()
    smi_problem: str | None = None

    @property
    def any_gpu(self) -> bool:
        """Something of NVIDIA's is there."""
        return bool(self.pci or self.device_files or self.smi)


@dataclass(frozen=True)
class CudaDevice:
    """The GPU as the C++ core sees it, all empty where a CPU is examined.

    driver, runtime: CUDA versions as 13000 for 13.0. problem: why it sees no GPU.
    visible: CUDA_VISIBLE_DEVICES, None: not set.
    """

    name: str = ""
    uuid: str = ""
    bus: int = -1
    driver: int = 0
    runtime: int = 0
    problem: str | None = None
    visible: str | None = None


@dataclass(frozen=True)
class Measured:
    """Bytes a second; None with a problem. how: what was timed."""

    h2d: float | None
    d2h: float | None
    how: str
    problem: str | None = None


@dataclass(frozen=True)
class Curve:
    """The link curve that is kept. age_seconds, h2d, d2h (bytes a second): None if there is none.

    piece_seconds: of one scattered piece of ``piece_bytes``, h2d. writable: its folder, or the one
    that it would be made in.
    """

    file: str
    writable: bool
    age_seconds: float | None = None
    h2d: float | None = None
    d2h: float | None = None
    piece_bytes: int = 0
    piece_seconds: float = 0.0


@dataclass(frozen=True)
class Memory:
    """ranks: how many processes divide the budget, and who says so."""

    limits: MemoryLimits
    budget: Budget
    ranks: str


@dataclass(frozen=True)
class Locked:
    """limit: RLIMIT_MEMLOCK in bytes; None: unlimited."""

    limit: int | None


@dataclass(frozen=True)
class Numa:
    """distances: node -> its row. cpus: node -> cores. allowed_*: of this process."""

    distances: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    cpus: Mapping[int, frozenset[int]] = field(default_factory=dict)
    allowed_nodes: frozenset[int] = frozenset()
    allowed_cpus: frozenset[int] = frozenset()


@dataclass(frozen=True)
class HugePages:
    """transparent: always, madvise, never; None: unknown. explicit: page bytes -> (all, free)."""

    transparent: str | None
    explicit: Mapping[int, tuple[int, int]]


@dataclass(frozen=True)
class SharedMemory:
    """Of /dev/shm, in bytes; None: it is not there."""

    total: int | None
    free: int | None


@dataclass(frozen=True)
class Facts:
    """device: ``cpu``, ``cuda`` or ``cuda:N``. curve: None on a CPU."""

    device: str
    software: Software
    hardware: Hardware
    cuda: CudaDevice
    measured: Measured
    curve: Curve | None
    memory: Memory
    locked: Locked
    numa: Numa
    huge_pages: HugePages
    shared_memory: SharedMemory

    @property
    def on_gpu(self) -> bool:
        """A GPU is examined."""
        return self.device != "cpu"


class Broken:
    """In the place of facts that could not be read."""

    def __init__(self, error: Exception, interrupted: bool = False) -> None:
        self._error = error
        self.interrupted = interrupted

    def __getattr__(self, name: str) -> Any:
        raise self._error


def guarded(read: Callable[[], T]) -> T:
    """What ``read`` returns, or a ``Broken`` with what it raised."""
    try:
        return read()
    except KeyboardInterrupt:
        return cast("T", Broken(InterruptedError(INTERRUPTED), interrupted=True))
    except Exception as error:
        return cast("T", Broken(error))
