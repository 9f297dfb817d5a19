"""F42: a pool takes what its size says, gives it back, and leaves nothing behind."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

MIB = 1 << 20
START = """
import json, os, time
import hicache_nsa as hc

FMT = hc.formats.dsa(2, page_size=64)

def mapped():
    with open("/proc/self/maps") as file:
        spans = [line.split(" ", 1)[0].split("-") for line in file]
    return sum(int(end, 16) - int(begin, 16) for begin, end in spans)

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def take():
    return mapped(), resident()
"""
POOL = """
def make():
    host = hc.HostPool(FMT, size="128MB")
    host.memory
    return host
"""
CACHE = """
def make():
    cache = hc.HiCache(FMT, device_pages=1, host_size="128MB", workers=1)
    cache.nbytes = cache.host_pool.nbytes
    return cache
"""
MEASURE = """
made = make(); made.close(); del made   # threads, arenas, code
before = take()
made = make()
during = take()
made.close()
after = take()
print(json.dumps({"nbytes": made.nbytes, "before": before, "during": during, "after": after}))
"""
CYCLES = """
def left(threads=None):
    # A thread that was joined may stay in the list for a moment.
    for _ in range(500):
        tasks = len(os.listdir("/proc/self/task"))
        if threads is None or tasks == threads:
            break
        time.sleep(0.01)
    return len(os.listdir("/proc/self/fd")), tasks, sorted(os.listdir("/dev/shm"))

def cycle(turn):
    ranks = {"local_ranks": 1 + turn % 3}
    with hc.HiCache(FMT, device_pages=4, host_pages=8, **ranks) as cache:
        cache.insert(range(128), cache.allocate(2))
        assert cache.drain(60)
        cache.reset()
        assert cache.match_prefix(range(128)).host_tokens == 128

for turn in range(3):
    cycle(turn)
threads = len(os.listdir("/proc/self/task"))
before = left()
for turn in range(50):
    cycle(turn)
print(json.dumps({"before": before, "after": left(before[1])}))
"""


def run(code: str) -> dict[str, list[int]]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    facts: dict[str, list[int]] = json.loads(done.stdout)
    return facts


@pytest.mark.parametrize("kind", [POOL, CACHE], ids=["HostPool", "HiCache"])
def test_f42_a_pool_maps_and_uses_what_its_size_says(kind: str) -> None:
    facts = run(START + kind + MEASURE)
    nbytes = int(facts["nbytes"])  # type: ignore[call-overload]
    assert 120e6 < nbytes <= 128e6
    maps, used = (
        [facts[moment][i] - facts["before"][i] for moment in ("during", "after")] for i in (0, 1)
    )
    # Up to a huge page to start on its border, a guard zone on both sides (debug builds), and in a
    # cache what its engine and its device page take.
    assert nbytes <= maps[0] <= nbytes + 2 * MIB + 2 * 4096 + other(kind)
    assert abs(used[0] - nbytes) <= 2 * MIB
    assert abs(maps[1]) <= other(kind) and abs(used[1]) <= MIB


def other(kind: str) -> int:
    """Bytes mapped beside the pool: stacks of an engine's threads, of 8 MiB each, and heaps."""
    return 0 if kind is POOL else 64 * MIB


def test_f42_fifty_caches_leave_nothing_behind() -> None:
    facts = run(START + CYCLES)
    assert facts["after"] == facts["before"]
