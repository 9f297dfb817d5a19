"""One rank of test_ranks.py: RANK, ranks, a file for torch's rendezvous. Prints its notes as JSON.

All plans run in one process group, one after the other: to load torch takes longer than they do.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

import torch
import torch.distributed as dist
from rank_plans import PLANS, own_host_pages, plan_for
from rank_work import RankWork


def least(numbers: Sequence[int]) -> list[int]:
    together = torch.tensor(numbers, dtype=torch.int64)
    dist.all_reduce(together, op=dist.ReduceOp.MIN)
    return together.tolist()


def main(rank: int, ranks: int, rendezvous: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=ranks)
    notes = {
        name: asdict(RankWork(plan_for(name, ranks), rank, own_host_pages(rank), least).run())
        for name in PLANS
    }
    dist.destroy_process_group()
    print(json.dumps(notes))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
