"""How long a cache takes to come back on the host file that another one left.

    python bench/warm_restart.py [--json bench/results/warm_restart.json] [--gib 8] [--device cuda]

``tree/...``: 100,000 pages that were saved, as prompts of 128 pages that share their first 64 in
fours, and as single pages that share nothing (a node each, the slowest case). A process of its own
makes and saves them, a second one comes back: ``scan_s`` proves all entries of the page table and
joins them, ``tree_s`` makes the nodes, ``attach_s`` is all of ``HiCache(...)``. The bytes of every
page are compared with what its tokens say.
``pool/...``: a pool of so many GiB: made anew, and again on the file that was left, touched and,
with ``--device cuda``, page-locked.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import hicache_nsa as hc
from hicache_nsa.cache import facade
from hicache_nsa.pools import host_file
from report import write_report

PAGE = 16
PROMPT_PAGES, SHARED_PAGES, SHARERS = 128, 64, 4
FORMAT = hc.formats.mla(1, kv_dtype="bf16", page_size=PAGE, kv_lora_rank=8, rope_head_dim=8)
Figures = dict[str, Any]


def prompts(kind: str, pages: int) -> list[np.ndarray]:
    """Prompts of ``pages`` different pages in all."""
    rng = np.random.default_rng(3)
    if kind == "single":
        return list(rng.integers(0, 1 << 17, (pages, PAGE)))
    made = []
    while pages > 0:
        shared = min(SHARED_PAGES, pages)
        stem = rng.integers(0, 1 << 17, shared * PAGE)
        pages -= shared
        for _ in range(SHARERS):
            own = min(PROMPT_PAGES - SHARED_PAGES, pages)
            pages -= own
            made.append(np.concatenate([stem, rng.integers(0, 1 << 17, own * PAGE)]))
    return made


def content(pages_of_tokens: np.ndarray) -> np.ndarray:
    """Bytes of pages with these tokens, uint8 [pages, page bytes]: tokens and a running sum."""
    width = FORMAT.page_bytes // 8
    sums = np.cumsum(pages_of_tokens, axis=1, dtype=np.int64)
    made = np.resize(np.concatenate([pages_of_tokens, sums], axis=1), (len(sums), 2 * PAGE))
    return np.tile(made, (1, -(-width // (2 * PAGE))))[:, :width].copy().view(np.uint8)


def fill(path: str, kind: str, pages: int) -> None:
    """Save all prompts; the process ends without ``close()``."""
    cache = hc.HiCache(FORMAT, device_pages=4096, host_pages=pages, host_file=path)
    buffer = cache.device_pool.buffers["latent"][0]
    for number, tokens in enumerate(prompts(kind, pages)):
        have = cache.match_prefix(tokens)
        own = tokens[have.device_tokens :]
        room = cache.allocate(len(own) // PAGE)
        buffer.reshape(4096, -1)[room] = content(own.reshape(-1, PAGE))
        cache.insert(tokens, np.concatenate([have.device_pages, room]))
        if number % 16 == 0:
            assert cache.drain(60)
    assert cache.drain(60) and cache.stats().host.evictable_pages == pages
    os._exit(0)


def come_back(path: str, kind: str, pages: int) -> Figures:
    times: dict[str, float] = {}

    def timed(name: str, call: Any) -> Any:
        def run(*args: Any) -> Any:
            start = time.perf_counter()
            result = call(*args)
            times[name] = time.perf_counter() - start
            return result

        return run

    host_file._core.HostFile.restore = timed("scan_s", host_file._core.HostFile.restore)
    facade.restore_tree = timed("tree_s", facade.restore_tree)
    start = time.perf_counter()
    cache = hc.HiCache(FORMAT, device_pages=16, host_pages=pages, host_file=path)
    times["attach_s"] = time.perf_counter() - start
    assert cache.stats().restored_host_tokens == pages * PAGE
    pool = cache.host_pool.view().reshape(pages, -1)
    nodes = list(cache.tree.nodes())
    for node in nodes:
        tokens = node.key.numpy().reshape(-1, PAGE)
        assert np.array_equal(pool[node.host_pages], content(tokens))
    cache.check()
    cache.close()
    return {"id": f"tree/{kind}/{pages}", "pages": pages, "nodes": len(nodes), **times}


def make_pool(path: str, gib: int, device: str) -> float:
    fmt = hc.formats.dsa(61)
    start = time.perf_counter()
    cache = hc.HiCache(fmt, device=device, device_pages=8, host_size=gib << 30, host_file=path)
    cache.host_pool.wait_ready()
    seconds = time.perf_counter() - start
    tokens = list(range(fmt.page_size))
    if cache.match_prefix(tokens).host_tokens == 0:
        cache.insert(tokens, cache.allocate(1))
        assert cache.drain(60)
    view = cache.host_pool.view()
    marks = view[:: 1 << 20]
    known = (np.arange(len(marks)) % 251).astype(np.uint8)
    if marks.any():
        assert np.array_equal(marks, known)
    marks[...] = known
    del view, marks
    cache.close()
    return seconds


def apart(call: Any, *args: Any) -> Any:
    """In a process of its own."""
    with get_context("spawn").Pool(1) as fresh:
        return fresh.apply(call, args)


def measure_tree(path: str, kind: str, pages: int) -> Figures:
    maker = get_context("spawn").Process(target=fill, args=(path, kind, pages))
    maker.start()
    maker.join()
    assert maker.exitcode == 0
    figures: Figures = apart(come_back, path, kind, pages)
    Path(path).unlink()
    return {**figures, "verified": True}


def measure_pool(path: str, gib: int, device: str) -> Figures:
    made, again = (apart(make_pool, path, gib, device) for _ in range(2))
    Path(path).unlink()
    return {
        "id": f"pool/{device}/{gib}GiB",
        "make_s_per_gib": made / gib,
        "attach_s_per_gib": again / gib,
        "verified": True,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", default=None)
    parser.add_argument("--pages", type=int, default=100_000)
    parser.add_argument("--gib", type=int, default=0, help="also a pool of so many GiB")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--folder", default="/dev/shm")
    args = parser.parse_args()
    cases = []
    with tempfile.TemporaryDirectory(dir=args.folder, prefix="hicache-bench-") as folder:
        path = str(Path(folder) / "pool")
        for kind in ("prompts", "single"):
            cases.append(measure_tree(path, kind, args.pages))
        if args.gib:
            cases.append(measure_pool(path, args.gib, args.device))
    for case in cases:
        figures = "  ".join(f"{k} {v:.3f}" for k, v in case.items() if isinstance(v, float))
        print(f"{case['id']:<24} {case.get('nodes', ''):>7}  {figures}")
    write_report(args.json, "python bench/warm_restart.py", cases)


if __name__ == "__main__":
    main()
