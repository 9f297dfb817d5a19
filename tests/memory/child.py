"""What the tests of this folder run in processes of their own: ``child.py SCENARIO [ARGUMENT]``.

Each scenario prints lines of JSON. Where it says "ready" it goes on when it is sent a line.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

GROUP = os.environ.get("TEST_GROUP")
if GROUP is not None:  # before anything large is loaded: what is in use already stays where it is
    Path(GROUP, "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")

import hicache_nsa as hc  # noqa: E402
from hicache_nsa.memory_budget import budget, first_look, key_of, local_ranks_of, read_limits  # noqa: E402

FMT = hc.formats.mha(1, 1, 512, dtype="fp8", page_size=64)  # 64 KiB a page


def tell(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


def wait() -> None:
    sys.stdin.readline()


def allowed(**options: int) -> int:
    ranks = local_ranks_of(None, os.environ).number
    return budget(read_limits(), ranks, options.get("memory_reserve")).allowed


def refusal(pages: int, **options: Any) -> str:
    try:
        hc.HostPool(FMT, pages=pages, **options).memory  # noqa: B018
    except hc.HiCacheError as error:
        return str(error)
    return "passed"


def write_all(host: hc.HostPool) -> bool:
    """Every byte of the pool, and the last one of each of its small pages read again."""
    view = host.view()
    view[:] = 0x5A
    return bool((view[4095::4096] == 0x5A).all())


def fill(reserve: str) -> None:
    """About the largest pool that fits, used to its last byte; a little more is refused."""
    options = {} if reserve == "default" else {"memory_reserve": int(reserve)}
    pages = allowed(**options) // FMT.page_bytes - 128  # 8 MiB for what the process takes meanwhile
    told = refusal(pages + 256, **options)
    with hc.HiCache(FMT, device_pages=1, host_pages=pages, **options) as cache:
        tell(nbytes=cache.host_pool.nbytes, intact=write_all(cache.host_pool), refusal=told)


def share() -> None:
    """A rank that takes what it is told to, and keeps it until it hears a line."""
    wait()
    fits = allowed() // FMT.page_bytes
    tell(fits=fits)
    pages = int(sys.stdin.readline())
    host = hc.HostPool(FMT, pages=pages)
    try:
        intact = write_all(host)
    except hc.HiCacheError as error:
        tell(error=str(error))
        return
    tell(intact=intact, more=refusal(256))
    wait()


def keep() -> None:
    """A pool of one of three ranks, kept until somebody ends the process."""
    tell(found=looks())
    wait()
    host = hc.HostPool(FMT, pages=16, local_ranks=3)
    host.view()[:] = 1
    tell(found=looks())
    wait()


def look() -> None:
    tell(found=looks())


def looks() -> list[int | None]:
    """What a rank of three, and one of two, finds that another one has found."""
    return [first_look(key_of(read_limits()), ranks) for ranks in (3, 2)]


if __name__ == "__main__":
    {"fill": fill, "share": share, "keep": keep, "look": look}[sys.argv[1]](*sys.argv[2:])
