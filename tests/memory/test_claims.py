"""What ranks tell each other about the memory that they divide, and that nothing of it stays."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from processes import child

import hicache_nsa as hc
from hicache_nsa.memory_budget import (
    Claim,
    first_look,
    key_of,
    own_bytes,
    pending_bytes,
    read_limits,
)

FMT = hc.formats.mha(1, 1, 512, dtype="fp8", page_size=64)


def key() -> int:
    return key_of(read_limits())


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def shared_files() -> list[str]:
    return sorted(path.name for path in Path("/dev/shm").iterdir())


def test_f31_ranks_see_what_the_first_one_found() -> None:
    """Ranks are processes of one parent. One that is killed leaves nothing."""
    before = shared_files(), descriptors()
    with child("keep") as first, child("keep") as second:
        assert first.hear()["found"] == second.hear()["found"] == [None, None]
        first.say()
        found, of_two = first.hear()["found"]
        assert found > 0 and of_two is None
        second.say()
        assert second.hear()["found"] == [found, None]
        assert seen() == [found, None]
        first.kill()
        assert seen() == [found, None]  # the second one has taken it over
        second.kill()
        assert seen() == [None, None]
    assert first_look(key(), 3) is None
    assert (shared_files(), descriptors()) == before


def seen() -> list[int | None]:
    with child("look") as rank:
        found: list[int | None] = rank.hear()["found"]
    return found


def test_a_claim_counts_until_it_is_closed() -> None:
    before = descriptors()
    claim = Claim(1000, 77, 4, 5000)
    assert (own_bytes(77), pending_bytes(77), own_bytes(78)) == (1000, 1000, 0)
    assert first_look(77, 4) == 5000
    assert first_look(77, 2) is None and first_look(78, 4) is None and first_look(77, 1) is None
    claim.settle(600)
    assert (own_bytes(77), pending_bytes(77)) == (1000, 600)
    claim.settle(0)
    assert (own_bytes(77), pending_bytes(77)) == (1000, 0)
    claim.close()
    claim.close()
    assert (own_bytes(77), first_look(77, 4), descriptors()) == (0, None, before)


def test_a_pool_that_is_dropped_claims_nothing() -> None:
    before = descriptors(), own_bytes(key())
    host = hc.HostPool(FMT, pages=4, local_ranks=2)
    host.view()
    assert own_bytes(key()) == before[1] + host.nbytes and descriptors() == before[0] + 1
    assert pending_bytes(key()) == 0
    del host
    gc.collect()
    assert (descriptors(), own_bytes(key())) == before


def test_what_a_pool_without_prefault_has_not_written_is_taken_already() -> None:
    host = hc.HostPool(FMT, pages=64, prefault=False)
    half = host.nbytes // 2 // 4096 * 4096
    host.view()
    for written, left in ((0, host.nbytes), (half, host.nbytes - half), (host.nbytes, 0)):
        host.view()[:written] = 1
        assert left - (1 << 20) <= pending_bytes(key()) <= left
    limit = read_limits().memory[0].available
    large = hc.HostPool(FMT, size=limit // 2, prefault=False)
    large.view()
    with pytest.raises(hc.HiCacheError, match="no memory for a host pool"):
        hc.HostPool(FMT, size=limit // 2, prefault=False).view()
    large.close()
    host.close()


def test_a_forked_child_holds_nothing_of_its_parent() -> None:
    claim = Claim(1000, 77, 4, 5000)
    pid = os.fork()
    if pid == 0:
        os._exit(0 if own_bytes(77) == 0 and first_look(77, 4) is None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert first_look(77, 4) == 5000
    claim.close()


def test_without_memory_files_pools_are_made_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(name: str) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "memfd_create", refused)
    with hc.HiCache(FMT, device_pages=1, host_pages=4, local_ranks=2) as cache:
        assert own_bytes(key()) == cache.host_pool.nbytes
        assert first_look(key(), 2) is None
    assert own_bytes(key()) == 0
