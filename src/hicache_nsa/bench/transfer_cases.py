"""The cases of ``hicache bench transfer``: one row each, known before anything is measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import product

from hicache_nsa.bench.machine import BOTH
from hicache_nsa.bench.page_runs import pages_in_runs
from hicache_nsa.bench.replayed_pages import Replayed
from hicache_nsa.bench.rig import Copy
from hicache_nsa.bench.settings import BenchSettings, TransferSettings
from hicache_nsa.tokens import PageIds
from hicache_nsa.transfer import D2H, H2D

HOST_SEED, DEVICE_SEED = 1, 2


@dataclass(frozen=True, slots=True)
class TransferCase:
    """One kind of copy. ``direction``: h2d, d2h, or both at once (as many pages each).

    ``host_run``, ``device_run``: pages of a run of neighbours, None where a replay says which.
    """

    layout: str
    io_backend: str
    layerwise: bool
    pages: int
    direction: str
    host_run: int | None
    device_run: int | None
    packed: bool
    beside_compute: bool | None
    gemm: bool

    @property
    def id(self) -> str:
        """``page_first/auto/layerwise/run1/pages512/h2d``."""
        mode = "layerwise" if self.layerwise else "whole"
        parts = [self.layout, self.io_backend, mode, runs_name(self.host_run, self.device_run)]
        parts += [f"pages{self.pages}", self.direction]
        return "/".join([*["packed"] * self.packed, *parts, *["gemm"] * self.gemm])

    @property
    def copies(self) -> int:
        """Copies that are made at once."""
        return 2 if self.direction == BOTH else 1


def runs_name(host_run: int | None, device_run: int | None) -> str:
    """``run64``, ``run64x8`` where the device's runs are not single pages, or ``replay``."""
    if host_run is None or device_run is None:
        return "replay"
    return f"run{host_run}" if device_run == 1 else f"run{host_run}x{device_run}"


def transfer_cases(settings: TransferSettings) -> list[TransferCase]:
    """All cases that the settings ask for, less those that ``pattern`` does not match.

    Raises:
        ValueError: a pool is too small, a GPU is needed, or nothing matches.
    """
    if settings.gemm and settings.device == "cpu":
        raise ValueError("--gemm multiplies matrices on a GPU: give --device cuda")
    if settings.both and settings.replay is not None:
        raise ValueError("--both copies other pages each way: it can't go with --replay")
    if settings.replay is None and (settings.replay_device or settings.replay_limit):
        raise ValueError(
            "--replay-device and --replay-limit need --replay: give --replay TRACE.jsonl"
        )
    if settings.replay_device is not None and settings.replay_device > (settings.pool or 0):
        raise ValueError(
            f"--replay-device {settings.replay_device} is more than --pool, the host pages of the "
            f"replay: give --pool {settings.replay_device} or, for loads, more"
        )
    directions = [*settings.directions, *[BOTH] * settings.both]
    # Runs that are longer than the copy are as long as it: equal cases are made once.
    found = dict.fromkeys(
        TransferCase(
            layout,
            io_backend,
            mode == "layerwise" and direction != D2H,
            pages,
            direction,
            host_run,
            device_run,
            settings.packed,
            True if settings.gemm and settings.beside_compute is None else settings.beside_compute,
            settings.gemm,
        )
        for layout, io_backend in product(settings.layouts, settings.io_backends)
        for mode, pages in product(settings.modes, settings.pages_of_a_copy)
        for host_run, device_run in _runs(settings, pages)
        for direction in directions
    )
    kept = set(matching_ids([case.id for case in found], settings.pattern))
    cases = [case for case in found if case.id in kept]
    pool = pool_pages(settings, cases)
    for case in cases:
        check_pool(case.id, case.copies * case.pages, pool)
    return cases


def matching_ids(ids: Sequence[str], pattern: str | None) -> list[str]:
    """``ids`` that ``pattern`` (with * and ?) matches; ``ValueError`` if there are none."""
    kept = [id for id in ids if pattern is None or fnmatchcase(id, pattern)]
    if not kept:
        raise ValueError(f"--filter {pattern!r} matches no case; there is, for example, {ids[0]!r}")
    return kept


def pool_pages(settings: BenchSettings, cases: Sequence[TransferCase]) -> int:
    """Pages of each pool: as asked for, or twice what is copied at once."""
    return settings.pool or 2 * max(case.copies * case.pages for case in cases)


def check_pool(case: str, copied: int, pool: int) -> None:
    """``ValueError`` unless a page is left over, which nothing may write to."""
    if copied >= pool:
        raise ValueError(
            f"{case} copies {copied} pages at once and a pool of {pool} has none left to show that "
            f"nothing else is written: give --pool {2 * copied}"
        )


def copies_of(case: TransferCase, pool: int, replayed: Replayed | None) -> list[Copy]:
    """The copies of a case: which host pages go with which device pages, of ``pool`` each.

    Raises:
        ValueError: the pool has no room for such runs, or the replay no such copy.
    """
    if replayed is not None:
        return [_copy(case, case.direction, replayed.pages(case.direction, case.pages))]
    assert case.host_run is not None and case.device_run is not None
    count = case.copies * case.pages
    host = pages_in_runs(pool, count, case.host_run, HOST_SEED)
    device = pages_in_runs(pool, count, case.device_run, DEVICE_SEED)
    directions = (H2D, D2H) if case.direction == BOTH else (case.direction,)
    parts = [slice(start, start + case.pages) for start in range(0, count, case.pages)]
    return [
        _copy(case, direction, (host[part], device[part]))
        for direction, part in zip(directions, parts, strict=True)
    ]


def _copy(case: TransferCase, direction: str, pages: tuple[PageIds, PageIds]) -> Copy:
    return Copy(direction, *pages, layerwise=case.layerwise, beside_compute=case.beside_compute)


def _runs(settings: TransferSettings, pages: int) -> Iterator[tuple[int | None, int | None]]:
    if settings.replay is not None:
        yield None, None
        return
    for host_run, device_run in product(settings.host_runs, settings.device_runs):
        yield min(host_run, pages), min(device_run, pages)
