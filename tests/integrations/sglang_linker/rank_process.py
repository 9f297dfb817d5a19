"""One of two ranks: the same requests through SGLang's cache, with a host pool of its own size.

Run by test_sglang_ranks.py: RANK, pages of its host pool, a file for torch's rendezvous. Prints
what each request was served with, as JSON.
"""

from __future__ import annotations

import json
import random
import sys
from dataclasses import astuple

import torch.distributed as dist
from kv_pools import DEVICE_PAGES
from linker_scenarios import prompt
from page_mirror import Mirror
from sglang.srt.runtime_context import get_context, get_parallel
from sglang_pools import mla_pool
from sglang_server import SglangServer

STEPS = 120


def main(rank: int, host_pages: int, rendezvous: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    with (
        get_context().override_server_args(page_size=16),
        get_parallel().override(attn_dcp_size=1, attn_dcp_rank=0),
    ):
        pool = mla_pool(size=DEVICE_PAGES * 16)
        config = {"host_pages": host_pages, "workers": 1, "keep_on_flush": True}
        server = SglangServer(
            pool, Mirror(**{"": pool}), config, "python", tp_cache_group=dist.group.WORLD
        )
        served = [serve(server, step) for step in range(STEPS)]
        server.settle()
        server.check()
        stats = server.linker.stats()
        server.close()
    print(json.dumps({"served": served, "results": server.results, "host": stats.loaded_pages}))
    dist.destroy_process_group()


def serve(server: SglangServer, step: int) -> tuple[int, ...]:
    """The same choices on both ranks: they come from the step alone."""
    draw = random.Random(step)
    trunk = prompt(draw.randrange(2), 4, 16)[: draw.randrange(1, 5) * 16]
    served = server.serve(trunk + prompt(100 + draw.randrange(4), draw.randrange(3), 16))
    if step % 7 == 3:
        server.settle()
    if step % 11 == 5:
        server.drop_device()
    if step % 9 == 8:
        server.flush()
    return tuple(int(value) for value in astuple(served))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
