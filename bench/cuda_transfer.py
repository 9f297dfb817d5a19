"""Measure copies between GPU and host pools against one contiguous pinned copy of the same run.

DeepSeek-V3.2 pages (fp8_ds_mla, 61 layers, page 64, latent and indexer together), scattered on both
sides or in runs of neighbours, both directions, every layout and way. Each round times the copy and
the contiguous one beside it; `share_of_peak` is the median of the pairs. Every byte of the copied
pages is checked. `submit_ms` is the caller's time in the one call that submits a copy.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time

import numpy as np
import torch

import hicache_nsa as hc
from report import write_report


class Peak:
    """One contiguous copy between pinned and device memory."""

    def __init__(self, nbytes: int) -> None:
        self.host = torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)
        self.device = torch.empty(nbytes, dtype=torch.uint8, device="cuda")

    def seconds(self, direction: str) -> float:
        torch.cuda.synchronize()
        started = time.perf_counter()
        if direction == "h2d":
            self.device.copy_(self.host, non_blocking=True)
        else:
            self.host.copy_(self.device, non_blocking=True)
        torch.cuda.synchronize()
        return time.perf_counter() - started


def pages_in_runs(total: int, count: int, run: int, seed: int) -> np.ndarray:
    """``count`` pages of ``total`` in shuffled runs of ``run`` neighbours."""
    starts = np.random.default_rng(seed).permutation(total // run)[: count // run] * run
    return (starts[:, None] + np.arange(run)).reshape(-1).astype(np.int64)


def measure(engine: hc.TransferEngine, peak: Peak, direction: str, host, device, rounds: int):
    """Medians of the paired rounds, the first of which warms up."""
    copies, shares, submits, peaks = [], [], [], []
    for _ in range(rounds + 1):
        plain = peak.seconds(direction)
        started = time.perf_counter()
        ticket = engine.submit(direction, host, device)
        submits.append(time.perf_counter() - started)
        assert ticket.wait(60)
        copies.append(time.perf_counter() - started)
        nbytes = ticket.nbytes
        peaks.append(peak.host.numel() / plain / 1e9)
        shares.append(nbytes / copies[-1] / 1e9 / peaks[-1])
    return {
        "direction": direction,
        "bytes": nbytes,
        "seconds_median": statistics.median(copies[1:]),
        "gbps": nbytes / statistics.median(copies[1:]) / 1e9,
        "share_of_peak": statistics.median(shares[1:]),
        "share_spread": [min(shares[1:]), max(shares[1:])],
        "submit_ms": 1e3 * statistics.median(submits[1:]),
        "submit_ms_worst": 1e3 * max(submits[1:]),
    }, peaks[1:]


def verified(engine: hc.TransferEngine, direction: str, host, device) -> bool:
    """Random bytes on the side that is read, one copy, and every byte compared."""
    fmt, pool = engine.host_pool.format, engine.host_pool
    host_bytes = torch.from_numpy(pool.view())
    tensors = engine.device_pool.buffers
    if direction == "h2d":
        host_bytes.copy_(torch.empty_like(host_bytes, device="cuda").random_(0, 256))
    else:
        for group in tensors.values():
            for tensor in group:
                tensor.random_(0, 256)
    torch.cuda.synchronize()
    assert engine.submit(direction, host, device).wait(60)
    index = torch.from_numpy(device).cuda()
    for buffer in fmt.buffers:
        for layer, tensor in zip(buffer.layers, tensors[buffer.name], strict=True):
            got = tensor[index].cpu()
            for row, page in zip(got, host.tolist(), strict=True):
                at = pool.offset(buffer.name, layer, page)
                if not torch.equal(row, host_bytes[at : at + buffer.page_bytes]):
                    return False
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=int, default=512, help="pages a copy")
    parser.add_argument("--pool", type=int, default=1024, help="pages of each pool")
    parser.add_argument("--layers", type=int, default=61)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--runs", default="1,64")
    parser.add_argument("--blocks", type=int, default=0, help="of the kernel, 0 = default")
    parser.add_argument("--json", default=None, help="write the report here")
    options = parser.parse_args()
    fmt = hc.formats.dsa(options.layers)
    device_pool = hc.DevicePool(fmt, pages=options.pool, device="cuda")
    peak = Peak(options.pages * fmt.page_bytes)
    peaks: dict[str, list[float]] = {"h2d": [], "d2h": []}
    cases = []
    for layout in ("page_first", "layer_first"):
        for way in ("direct", "kernel", "auto"):
            host_pool = hc.HostPool(fmt, pages=options.pool, layout=layout)
            engine = hc.TransferEngine(
                device_pool, host_pool, way, kernel_blocks=options.blocks, pin_memory=True
            )
            for run in (int(text) for text in options.runs.split(",")):
                host, device = (
                    pages_in_runs(options.pool, options.pages, run, seed) for seed in (1, 2)
                )
                for direction in ("h2d", "d2h"):
                    before = engine.counters()[direction]
                    case, plain = measure(engine, peak, direction, host, device, options.rounds)
                    after = engine.counters()[direction]
                    took = [w for w in ("direct", "kernel") if after[w] > before[w]]
                    exact = verified(engine, direction, host, device)
                    peaks[direction] += plain
                    name = f"{layout}/{way}/run{run}/{direction}"
                    case = {"id": name, "way": took, "run": run, **case, "verified": exact}
                    cases.append(case)
                    print(
                        f"{name:34} {'+'.join(took):7} {case['gbps']:6.2f} GB/s"
                        f"  {case['share_of_peak']:.3f} of peak  submit {case['submit_ms']:.3f} ms"
                        f" (worst {case['submit_ms_worst']:.3f})  verified {exact}",
                        file=sys.stderr,
                    )
            engine.close()
            host_pool.close()
    write_report(
        options.json,
        " ".join(["python", "bench/cuda_transfer.py", *sys.argv[1:]]),
        cases,
        gpu=torch.cuda.get_device_name(),
        blocks=options.blocks,
        peak={f"{d}_gbps": statistics.median(p) for d, p in peaks.items()},
    )
    return 0 if all(case["verified"] for case in cases) else 1


if __name__ == "__main__":
    sys.exit(main())
