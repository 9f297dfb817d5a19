"""Measure the CPU backend: saves and loads of scattered pages against a plain memcpy.

DeepSeek-V3.2 pages (fp8_ds_mla, 61 layers, page 64) go between a device pool with one array a
buffer and layer and a host pool in each layout, in shuffled order on both sides. Before each copy
the same number of bytes is moved by a contiguous memcpy on as many threads: that pair gives
``share_of_peak``. Every byte of the destination is checked after each case.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from hicache_nsa import _core
from report import write_report

BUFFERS = (("latent", 41_984), ("index_k", 8_448))
LAYOUTS = ("layer_first", "page_first", "page_first_direct")

memcpy = ctypes.CDLL(None).memcpy  # a plain foreign call: the GIL is released
memcpy.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
memcpy.restype = ctypes.c_void_p


class Pools:
    """A device pool and a host pool of the same number of pages, and an engine between them."""

    def __init__(self, layout: str, layers: int, pages: int, workers: int) -> None:
        owners = list(range(layers))
        self.format = _core.PoolFormat(64, layers, [(n, size, owners) for n, size in BUFFERS])
        self.layout = _core.HostLayout(self.format, layout, pages)
        self.host = _core.HostMemory(self.layout.total_bytes)
        self.device = _core.HostMemory(self.layout.total_bytes)
        self.arrays: dict[tuple[int, int], NDArray[np.uint8]] = {}
        buffers = []
        start = 0
        for index, (_, size) in enumerate(BUFFERS):
            for layer in owners:
                array = self.device.view()[start : start + pages * size].reshape(pages, size)
                self.arrays[index, layer] = array
                buffers.append(_core.DeviceBuffer(array.ctypes.data, size, 1, size, size))
                start += pages * size
        self.engine = _core.TransferEngine(
            self.format, "cpu", pages, buffers, self.host, self.layout, workers
        )

    @property
    def nbytes(self) -> int:
        return int(self.layout.total_bytes)

    def host_page(self, buffer: int, layer: int, page: int) -> NDArray[np.uint8]:
        at = self.layout.offset(buffer, layer, page)
        return self.host.view()[at : at + BUFFERS[buffer][1]]

    def fill(self, direction: str) -> None:
        """Random bytes on the side a copy reads, a constant on the side it writes."""
        source, target = (
            (self.host, self.device) if direction == "h2d" else (self.device, self.host)
        )
        words = source.view()[: self.nbytes // 8 * 8].view(np.uint64)
        words[:] = np.random.default_rng(5).integers(0, 1 << 63, words.size, dtype=np.uint64)
        target.view()[:] = 0xEE

    def equal(self, host_pages: NDArray[np.int64], device_pages: NDArray[np.int64]) -> bool:
        pairs = list(zip(host_pages.tolist(), device_pages.tolist(), strict=True))
        return all(
            np.array_equal(self.host_page(buffer, layer, host), array[device])
            for (buffer, layer), array in self.arrays.items()
            for host, device in pairs
        )


def plain_memcpy(pool: ThreadPoolExecutor, target: int, source: int, nbytes: int, n: int) -> float:
    """Seconds for one contiguous copy, cut into as many parts as there are threads."""
    cuts = [nbytes * i // n // 4096 * 4096 for i in range(n)] + [nbytes]
    started = time.perf_counter()
    parts = [pool.submit(memcpy, target + a, source + a, b - a) for a, b in pairwise(cuts)]
    for part in parts:
        part.result()
    return time.perf_counter() - started


def measure_case(
    pools: Pools,
    direction: str,
    rounds: int,
    order: Callable[[int], NDArray[np.int64]],
    baseline: Callable[[str, Pools], float],
) -> tuple[dict[str, object], list[float]]:
    """Time one direction of one layout, paired with the baseline."""
    pages = pools.layout.num_pages
    host_pages, device_pages = order(pages), order(pages)
    plain, copies, submits = [], [], []
    for _ in range(rounds + 1):  # the first round warms up
        plain.append(baseline(direction, pools))
        started = time.perf_counter()
        ticket = pools.engine.submit(direction, host_pages, device_pages)
        submits.append(time.perf_counter() - started)
        ticket.wait()
        copies.append(time.perf_counter() - started)
    pools.fill(direction)
    pools.engine.submit(direction, host_pages, device_pages).wait()
    verified = pools.equal(host_pages, device_pages)
    seconds = statistics.median(copies[1:])
    shares = [a / b for a, b in zip(plain[1:], copies[1:], strict=True)]
    submit_seconds = statistics.median(submits[1:])
    case: dict[str, object] = {
        "direction": direction,
        "bytes": pools.nbytes,
        "seconds_median": seconds,
        "gbps": pools.nbytes / seconds / 1e9,
        "share_of_peak": statistics.median(shares),
        "verified": verified,
        "submit_seconds": submit_seconds,
        "submit_share": submit_seconds / seconds,
    }
    return case, plain[1:]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=int, default=256)
    parser.add_argument("--layers", type=int, default=61)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--workers", type=int, default=min(4, os.cpu_count() or 1))
    parser.add_argument("--json", default=None, help="write the report here")
    options = parser.parse_args()
    load = os.getloadavg()[0]  # other work on the machine: figures of a busy one are worth little
    random = np.random.default_rng(1)
    orders = {
        "scattered": lambda n: random.permutation(n).astype(np.int64),
        "neighbours": lambda n: np.arange(n, dtype=np.int64),
    }
    cases: list[dict[str, object]] = []
    plain: dict[str, list[float]] = {"h2d": [], "d2h": []}
    nbytes = 0
    with ThreadPoolExecutor(options.workers) as pool:

        def baseline(direction: str, pools: Pools) -> float:
            ends = (pools.device.address, pools.host.address)
            target, source = ends if direction == "h2d" else ends[::-1]
            return plain_memcpy(pool, target, source, pools.nbytes, options.workers)

        for layout in LAYOUTS:
            pools = Pools(layout, options.layers, options.pages, options.workers)
            nbytes = pools.nbytes
            for name, order in orders.items():
                for direction in ("h2d", "d2h"):
                    case, seconds = measure_case(pools, direction, options.rounds, order, baseline)
                    case = {"id": f"{layout}/{name}/{direction}", **case}
                    plain[direction] += seconds
                    cases.append(case)
                    print(
                        f"{case['id']:38} {case['gbps']:6.2f} GB/s  {case['share_of_peak']:.2f} of"
                        f" memcpy  submit {case['submit_share']:.5f}  verified {case['verified']}",
                        file=sys.stderr,
                    )
            pools.engine.close()
            del pools
    write_report(
        options.json,
        " ".join(["python", "bench/cpu_engine.py", *sys.argv[1:]]),
        cases,
        workers=options.workers,
        load_average_at_start=load,
        peak={f"{d}_gbps": nbytes / statistics.median(s) / 1e9 for d, s in plain.items()},
    )
    return 0 if all(case["verified"] for case in cases) else 1


if __name__ == "__main__":
    sys.exit(main())
