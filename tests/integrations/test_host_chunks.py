"""What a scheduler decides: leases, pins, stores that are whole or refused, and a random driver."""

import random

import numpy as np
import pytest

from hicache_nsa.integrations.offloading.host_chunks import HostChunks
from hicache_nsa.page_index import HIT, MISS, PENDING, POLICIES


def keys(name: str, count: int) -> list[bytes]:
    return [f"{name}{i}".encode() for i in range(count)]


def stored(host: HostChunks, chain: list[bytes], parent: bytes | None = None) -> list[bytes]:
    """Store ``chain`` to the end; returns what was evicted."""
    store = host.store(chain, parent)
    assert store is not None
    assert host.stored(store.keys, True) == []
    return store.evicted


def states(host: HostChunks, chain: list[bytes]) -> list[int]:
    found = [host.lookup(key) for key in chain]
    host.end_step()
    return found


def test_what_is_being_stored_is_no_hit() -> None:
    host = HostChunks(4)
    store = host.store(keys("a", 2))
    assert store is not None
    assert (store.keys, sorted(store.chunks.tolist()), store.evicted) == (
        keys("a", 2), sorted(set(store.chunks.tolist())), [],
    )  # fmt: skip
    assert states(host, keys("a", 3)) == [PENDING, PENDING, MISS]
    assert host.store(keys("a", 2)).keys == []  # not stored twice
    host.stored(store.keys, True)
    assert states(host, keys("a", 3)) == [HIT, HIT, MISS]


def test_a_store_that_fails_leaves_nothing() -> None:
    host = HostChunks(4)
    store = host.store(keys("a", 2))
    assert set(host.stored(store.keys, False)) == set(keys("a", 2))
    assert states(host, keys("a", 2)) == [MISS, MISS]
    assert host.stats().free_pages == 4
    assert host.take_counts().stored == 0


def test_f03_a_load_keeps_its_chunks() -> None:
    host = HostChunks(4)
    stored(host, keys("a", 4))
    chunks = host.load(keys("a", 2))
    assert host.store(keys("b", 3)) is None
    assert stored(host, keys("b", 2)) == [b"a3", b"a2"]
    assert host.store(keys("c", 3)) is None
    host.loaded(keys("a", 2))
    assert set(stored(host, keys("c", 4))) == {b"a0", b"a1", b"b0", b"b1"}
    assert len(set(chunks.tolist())) == 2
    with pytest.raises(KeyError):
        host.load([b"a0"])


def test_a_lookup_keeps_what_it_found_until_the_step_ends() -> None:
    host = HostChunks(4)
    stored(host, keys("a", 4))
    assert [host.lookup(key) for key in keys("a", 4)] == [HIT] * 4
    assert [host.lookup(key) for key in keys("a", 4)] == [HIT] * 4  # one lease, however often
    assert host.store(keys("b", 1)) is None
    host.load(keys("a", 4))
    host.end_step()
    assert host.store(keys("b", 1)) is None  # the load's pins
    host.loaded(keys("a", 4))
    assert stored(host, keys("b", 1)) == [b"a3"]
    assert host.stats().pinned_pages == 0


def test_f24_no_key_outlives_the_one_above_it() -> None:
    host = HostChunks(6)
    stored(host, keys("a", 3))
    stored(host, [b"a3", b"a4"], parent=b"a2")  # used last, but what is above is used later
    host.touch(keys("a", 3))
    assert stored(host, keys("b", 4)) == [b"a4", b"a3", b"a2"]
    assert states(host, keys("a", 5)) == [HIT, HIT, MISS, MISS, MISS]


def test_f40_a_full_tier_goes_on_storing() -> None:
    host = HostChunks(4)
    for i in range(10):
        evicted = stored(host, keys(f"prompt{i}-", 4))
        assert len(evicted) == (4 if i else 0)
    assert states(host, keys("prompt9-", 4)) == [HIT] * 4
    counts = host.take_counts()
    assert (counts.stored, counts.evicted, counts.refused) == (40, 36, 0)


def test_a_refused_store_changes_nothing() -> None:
    host = HostChunks(4)
    stored(host, keys("a", 3))
    before = host.stats()
    assert host.store(keys("b", 5)) is None
    assert host.stats() == before
    assert states(host, keys("a", 3)) == [HIT] * 3
    assert host.take_counts().refused == 5


def test_what_is_offered_again_is_used_again() -> None:
    host = HostChunks(4)
    stored(host, [b"old"]), stored(host, [b"new"])
    stored(host, [b"old"])  # a hit on the device offers what is on host
    assert stored(host, keys("b", 3)) == [b"new"]


def test_an_evicted_parent_begins_a_chain() -> None:
    host = HostChunks(2)
    stored(host, [b"a"])
    stored(host, keys("b", 2))
    assert stored(host, [b"a1"], parent=b"a") == [b"b1"]
    assert states(host, [b"a1"]) == [HIT]


def test_spare_chunks_are_freed_with_the_store_that_evicts() -> None:
    host = HostChunks(20, spare=5)
    stored(host, keys("a", 20))
    evicted = stored(host, keys("b", 1))
    assert sorted(evicted) == sorted(keys("a", 20)[14:])
    assert host.stats().free_pages == 5
    assert stored(host, keys("c", 5)) == []
    host.load(keys("a", 14)), host.load(keys("b", 1)), host.load(keys("c", 4))
    assert stored(host, keys("d", 1)) == [b"c4"]  # no spare to be had: the store goes on
    assert host.take_counts().evicted == 7


def test_as_many_spare_chunks_as_may_go() -> None:
    host = HostChunks(6, spare=5)
    stored(host, keys("a", 6))
    host.load(keys("a", 2))
    evicted = stored(host, keys("b", 1))
    assert sorted(evicted) == keys("a", 6)[2:]
    assert host.stats().free_pages == 3
    host.check()


def test_a_key_that_stands_there_twice_changes_nothing() -> None:
    host = HostChunks(4)
    stored(host, [b"old"]), stored(host, [b"new"])
    with pytest.raises(ValueError, match="again"):
        host.store([b"old", b"c", b"c"])
    assert stored(host, keys("b", 3)) == [b"old"]


def test_f18_a_reset_forgets_what_is_in_flight_too() -> None:
    host = HostChunks(4)
    stored(host, keys("a", 2))
    host.load(keys("a", 1)), host.lookup(b"a1"), host.store(keys("b", 2))
    assert host.reset() == 4
    assert (len(host.store(keys("c", 4)).chunks), host.stats().pinned_pages) == (4, 0)
    host.end_step()
    assert states(host, keys("a", 2) + keys("b", 2)) == [MISS] * 4


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("spare", [0, 3])
def test_random_requests_never_meet_foreign_chunks(policy: str, spare: int) -> None:
    """A scheduler's calls in any order that it may make them, over a memory of key names."""
    rng = random.Random(f"{policy}{spare}")
    host = HostChunks(40, policy, spare)
    memory: dict[int, bytes] = {}
    stores: list[list[tuple[bytes, int]]] = []
    loads: list[list[tuple[bytes, int]]] = []
    loaded = refused = 0
    for step in range(1200):
        chain = [f"{rng.randrange(4)}".encode()]
        for _ in range(rng.randrange(12)):
            chain.append(chain[-1] + f".{rng.randrange(2)}".encode())
        hits = 0
        while hits < len(chain) and host.lookup(chain[hits]) == HIT:
            hits += 1
        if rng.random() < 0.3:  # another request's store comes between lookup and load
            other = host.store([f"x{step}".encode()])
            if other is not None:
                host.stored(other.keys, False)
        if hits and rng.random() < 0.7:
            pages = host.load(chain[:hits])
            loads.append(list(zip(chain, pages.tolist(), strict=False)))
        if rng.random() < 0.5:
            host.end_step()
        store = host.store(chain[hits:], chain[hits - 1] if hits else None)
        if store is None:
            refused += 1
        elif store.keys:
            busy = {chunk for job in stores + loads for _, chunk in job}
            assert busy.isdisjoint(store.chunks.tolist())
            stores.append(list(zip(store.keys, store.chunks.tolist(), strict=True)))
        host.end_step()
        while loads and rng.random() < 0.5:
            job = loads.pop(rng.randrange(len(loads)))
            assert [memory[chunk] for _, chunk in job] == [key for key, _ in job]
            host.loaded({key for key, _ in job})
            loaded += len(job)
        while stores and rng.random() < 0.5:
            job = stores.pop(rng.randrange(len(stores)))
            memory.update({chunk: key for key, chunk in job})
            assert host.stored({key for key, _ in job}, True) == []
        if rng.random() < 0.005:
            host.reset()
            stores.clear(), loads.clear()
        host.check()
    assert loaded > 300
    assert refused > 0


def test_lookup_gives_chunks_as_numbers() -> None:
    host = HostChunks(4)
    store = host.store(keys("a", 3))
    assert store.chunks.dtype == np.int64
    host.stored(store.keys, True)
    assert (host.load(keys("a", 3)) == store.chunks).all()
