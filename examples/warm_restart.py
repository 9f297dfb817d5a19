"""The host tier survives the process: a cache is killed, the next one hits.

python examples/warm_restart.py
"""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path

import hicache_nsa as hc

FORMAT = hc.formats.dsa(num_layers=2)
PROMPT = list(range(1000))


def open_cache(file: Path) -> hc.HiCache:
    """The cache of this process, and of the one before it."""
    return hc.HiCache(FORMAT, device_pages=64, host_pages=64, host_file=file, weights="demo@1")


def serve_until_killed(file: Path) -> None:
    """What a server does until somebody ends it the hard way."""
    cache = open_cache(file)
    pages = cache.allocate(len(PROMPT) // FORMAT.page_size)
    cache.insert(PROMPT, pages)  # computed by a model, saved from now on
    cache.drain()
    os.kill(os.getpid(), signal.SIGKILL)


with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
    file = Path(folder) / "pool"
    child = os.fork()
    if child == 0:
        serve_until_killed(file)
    os.waitpid(child, 0)
    with open_cache(file) as cache:
        print(f"tokens on host: {cache.stats().restored_host_tokens}")
        print(f"the prompt hits: {cache.match_prefix(PROMPT).host_tokens} of {len(PROMPT)}")
        with cache.load_back(cache.match_prefix(PROMPT)) as load:
            print(f"brought back: {load.wait()}, {load.tokens} tokens")
