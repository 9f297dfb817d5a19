"""Two seconds of copies: what the link, or on a CPU the memory, does now."""

from __future__ import annotations

import time
from statistics import median

import numpy as np

from hicache_nsa import _core, link_curve
from hicache_nsa.doctor.facts import INTERRUPTED, Measured
from hicache_nsa.errors import HiCacheError
from hicache_nsa.formats.models import model_format
from hicache_nsa.pools import DevicePool, HostPool
from hicache_nsa.transfer import D2H, H2D, TransferEngine

SECONDS = 2.0
CPU_PAGES = 16  # of DeepSeek-V3.2: 47 MiB, more than caches hold


def measure(device: str, seconds: float = SECONDS) -> Measured:
    """h2d and d2h of ``cpu``, ``cuda`` or ``cuda:N``, for about so long."""
    try:
        return measure_cpu(seconds) if device == "cpu" else measure_gpu(device, seconds)
    except KeyboardInterrupt:
        return Measured(None, None, "", INTERRUPTED)
    except (HiCacheError, RuntimeError, MemoryError) as error:
        return Measured(None, None, "", str(error) or type(error).__name__)


def measure_gpu(device: str, seconds: float) -> Measured:
    """As ``hicache bench link`` measures, again and again; nothing is kept."""
    rates: dict[str, list[float]] = {H2D: [], D2H: []}
    limit = time.monotonic() + seconds
    while not rates[H2D] or time.monotonic() < limit:
        curve = _core.LinkCurve.measure(device)
        for direction, found in rates.items():
            found.append(link_curve.peak_rate(curve, direction))
    how = f"out of and into page-locked memory, as hicache bench link does, {len(rates[H2D])} times"
    return Measured(median(rates[H2D]), median(rates[D2H]), how)


def measure_cpu(seconds: float) -> Measured:
    """Loads and saves of a transfer engine between two pools in host memory, bytes compared."""
    format = model_format("deepseek-v3.2")
    device = DevicePool(format, pages=CPU_PAGES)
    host = HostPool(format, pages=CPU_PAGES)
    engine = TransferEngine(device, host)
    try:
        pages = np.arange(CPU_PAGES)
        expected = np.random.default_rng(0).integers(0, 256, host.nbytes, np.uint8)
        host.view()[:] = expected
        rates: dict[str, list[float]] = {H2D: [], D2H: []}
        limit = time.monotonic() + seconds
        while not rates[D2H] or time.monotonic() < limit:
            for direction, copy in ((H2D, engine.load), (D2H, engine.save)):
                if direction == D2H:
                    host.view()[:: format.page_bytes] ^= 0xFF  # a save must bring it back
                started = time.perf_counter()
                copy(pages, pages).wait()
                rates[direction].append(host.nbytes / (time.perf_counter() - started))
        if not np.array_equal(host.view(), expected):
            raise HiCacheError("bytes that were loaded and saved differ from those before")
        how = f"between two pools in host memory, bytes compared, {len(rates[H2D])} times each way"
        return Measured(median(rates[H2D]), median(rates[D2H]), how)
    finally:
        engine.close()
        host.close()
        device.close()
