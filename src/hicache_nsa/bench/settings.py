"""What the benches of copies are asked to do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

DEFAULT_PAGES = {"cpu": 64, "cuda": 512}
MODES = ("layerwise", "whole")


@dataclass(frozen=True, slots=True)
class BenchSettings:
    """Options that all of them have.

    ``pages``: of a copy. ``pool``: pages of each pool, None: what the largest case needs.
    ``host_runs``, ``device_runs``: pages of a run of neighbours on that side. ``beside_compute``:
    what the caller says of it, None leaves it to the engine. ``packed``: a page's record is
    contiguous on the device. ``rounds``: that are counted, one more warms up. ``blocks`` (of the
    GPU's kernel) and ``workers`` (host threads a direction on the CPU): 0, the engine chooses.
    """

    device: str = "cpu"
    kv_dtype: str = "fp8_ds_mla"
    layers: int = 61
    pages: tuple[int, ...] = ()
    pool: int | None = None
    host_runs: tuple[int, ...] = (1,)
    device_runs: tuple[int, ...] = (1,)
    layouts: tuple[str, ...] = ("page_first",)
    io_backends: tuple[str, ...] = ("auto",)
    beside_compute: bool | None = None
    packed: bool = False
    rounds: int = 7
    blocks: int = 0
    workers: int = 0
    pattern: str | None = None

    @property
    def pages_of_a_copy(self) -> tuple[int, ...]:
        """``pages``, or what suits the device."""
        return self.pages or (DEFAULT_PAGES[self.device.partition(":")[0]],)


@dataclass(frozen=True, slots=True)
class TransferSettings(BenchSettings):
    """``modes``: of loads, some of MODES. ``both``: also both directions at once. ``gemm``: the
    joint measurement beside matrix products. ``replay``: a trace whose replay says which pages are
    copied, instead of runs; its host pool has ``pool`` pages, its device pool ``replay_device``
    (None: a quarter of that), and it ends after ``replay_limit`` requests.
    """

    directions: tuple[str, ...] = ("h2d", "d2h")
    modes: tuple[str, ...] = MODES
    both: bool = False
    gemm: bool = False
    replay: Path | None = None
    replay_device: int | None = None
    replay_limit: int | None = None


@dataclass(frozen=True, slots=True)
class OverlapSettings(BenchSettings):
    """``ratios``: a layer's compute time by the copy time of a layer. ``work``: sleep or gemm."""

    ratios: tuple[float, ...] = (0.1, 0.25, 0.5, 1.0, 1.5, 2.0)
    work: str = "sleep"


@dataclass(frozen=True, slots=True)
class VerifySettings(BenchSettings):
    """``verify``: of the engines that are compared with one that doesn't verify."""

    directions: tuple[str, ...] = ("h2d", "d2h")
    verify: tuple[str, ...] = ("sample", "all")
