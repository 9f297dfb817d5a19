"""Lookups, loads and offloads of a linker, call by call. No SGLang, no GPU."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from kv_pools import PAGE
from linker_scenarios import prompt
from linker_transfers import kv, store
from served_request import Served
from stand_in_server import page_hashes

from hicache_nsa.streams import CpuStream
from hicache_nsa.testing import fail_next, hold

Make = Callable[..., Any]


# ---- lookup ----


def test_lookup_names_every_restorable_length(make_server: Make) -> None:
    server = make_server()
    keys = store(server)
    assert server.linker.lookup("x", kv([*keys, "0" * 64])) == [1, 2, 3, 4]
    assert server.linker.lookup("x", kv(["0" * 64, *keys])) == []
    assert server.linker.lookup("x", kv([])) == []
    assert server.linker.lookup("x", []) == []
    with pytest.raises(ValueError, match="a transfer of pool mamba"):
        server.linker.lookup("x", [SimpleNamespace(name="mamba", keys=["a"])])


def test_f27_a_threshold_leaves_short_hits_out(make_server: Make) -> None:
    server = make_server(load_back_threshold=2 * PAGE + 1)
    keys = store(server)
    assert server.linker.lookup("x", kv(keys)) == [3, 4]
    assert server.linker.lookup("x", kv(keys[:2])) == []
    assert server.linker.stats().host.pinned_pages == 0


def test_pages_are_no_hit_before_they_have_landed(make_server: Make) -> None:
    server = make_server()
    tokens = prompt(1, 3, PAGE)
    keys = page_hashes(tokens, PAGE)
    with hold(server.linker.engine, "d2h"):
        server.serve(tokens)
        assert server.linker.lookup("x", kv(keys)) == []
    server.settle()
    assert server.linker.lookup("x", kv(keys)) == [1, 2, 3]


def test_a_leased_page_is_not_evicted(make_server: Make) -> None:
    """SGLang looks up, agrees with other ranks, and loads later: the pages must be there still."""
    server = make_server(host_pages=6)
    keys = store(server)
    assert server.linker.lookup("x", kv(keys)) == [1, 2, 3, 4]
    server.serve(prompt(2, 4, PAGE))
    assert server.settle() == [False]  # two free pages are not enough, and none may go
    assert server.linker.stats().refused_offloads == 1
    assert server.serve(prompt(1, 4, PAGE), rid="x") == Served(0, 4, 0)
    server.settle()
    server.check()


def test_a_lease_has_a_time_limit(make_server: Make) -> None:
    server = make_server(host_pages=6, lease_seconds=1e-6)
    keys = store(server)
    assert server.linker.lookup("never comes back", kv(keys)) == [1, 2, 3, 4]
    server.serve(prompt(2, 4, PAGE))
    assert server.settle() == [True]
    assert server.linker.stats().leases == 0


# ---- loads ----


def test_layers_are_awaited_one_by_one(make_server: Make) -> None:
    """No layer is passed before it has landed, and a forward without loads waits for nothing."""
    server = make_server()
    keys = store(server)
    counter = server.linker.layer_done_counter
    assert counter.num_layers == 3
    with hold(server.linker.engine, "h2d"):
        assert server.linker.load("x", kv(keys, [5, 6, 7, 8]))
        index = server.linker.start_layer_wise_loading()
        counter.wait_until(0)  # no consumer is set: this forward has no load
        counter.set_consumer(index)
        passed = threading.Event()
        waiter = threading.Thread(target=lambda: (counter.wait_until(0), passed.set()))
        waiter.start()
        waiter.join(0.05)
        assert not passed.is_set()
    waiter.join(30)
    assert passed.is_set()
    for page, key in zip([5, 6, 7, 8], keys, strict=True):
        server.mirror.expect(page, key)
    assert server.mirror.wrong_bytes([5, 6, 7, 8], [0]) == []
    assert server.linker.finish_layer_wise_loading(index)
    server.check()


def test_one_batch_is_one_copy(make_server: Make) -> None:
    server = make_server()
    one, two = store(server, 3, seed=1), store(server, 2, seed=2)
    assert server.linker.start_layer_wise_loading() == -1
    assert server.linker.finish_layer_wise_loading(-1)
    server.linker.load("one", kv(one, [1, 2, 3]))
    server.linker.load("two", kv(two, [9, 4]))
    server.linker.load("both", kv(one[:1], [7]))  # the same host page twice
    before = server.linker.engine.counters()["h2d"]["copies"]
    index = server.linker.start_layer_wise_loading()
    assert server.linker.finish_layer_wise_loading(index)
    assert server.linker.engine.counters()["h2d"]["copies"] == before + 1
    for page, key in zip([1, 2, 3, 9, 4, 7], [*one, *two, one[0]], strict=True):
        server.mirror.expect(page, key)
    server.check()
    assert not server.linker.finish_layer_wise_loading(index)  # not vouched for twice


def test_f03_host_pages_stay_until_the_load_has_ended(make_server: Make) -> None:
    server = make_server(host_pages=4)
    keys = store(server)
    with hold(server.linker.engine, "h2d"):
        server.linker.load("x", kv(keys, [1, 2, 3, 4]))
        index = server.linker.start_layer_wise_loading()
        server.linker.offload(kv(["e" * 64], [9]))
        assert server.linker.num_completed_offloads() == 1
        assert server.linker.pop_completed_offload() is False
    assert server.linker.finish_layer_wise_loading(index)
    assert server.linker.stats().host.pinned_pages == 0
    server.linker.offload(kv(["e" * 64], [9]))
    server.linker.quiesce()
    assert server.linker.pop_completed_offload() is True


def test_f17_a_load_does_not_depend_on_what_this_rank_has(make_server: Make) -> None:
    """Ranks agreed on a hit; one has lost it since. All queue the load, and it fails on all."""
    server = make_server()
    keys = store(server)
    server.linker.index.reset()
    assert server.linker.load("x", kv(keys, [1, 2, 3, 4])) is True
    index = server.linker.start_layer_wise_loading()
    server.linker.layer_done_counter.set_consumer(index)
    server.linker.layer_done_counter.wait_until(2)  # returns: the forward's output is dropped
    assert server.linker.finish_layer_wise_loading(index) is False
    assert server.linker.stats().failed_loads == 1
    server.check()


def test_f17_an_offload_without_room_is_queued_all_the_same(make_server: Make) -> None:
    """Another rank may have room: queues that differ would give one node another one's result."""
    server = make_server(host_pages=3)
    server.serve(prompt(1, 2, PAGE))
    server.serve(prompt(2, 4, PAGE))  # never fits
    server.serve(prompt(3, 3, PAGE))
    assert server.settle() == [True, False, True]
    server.check()


def test_f37_a_thousand_cancelled_loads_leave_nothing(make_server: Make) -> None:
    server = make_server()
    keys = store(server)
    for n in range(1000):
        rid = f"request-{n}"
        server.linker.lookup(rid, kv(keys))
        server.linker.load(rid, kv(keys, [1, 2, 3, 4]))
        assert server.linker.cancel_queued_load(rid)
        assert not server.linker.cancel_queued_load(rid)
    stats = server.linker.stats()
    assert (stats.leases, stats.host.pinned_pages) == (0, 0)
    assert server.linker.start_layer_wise_loading() == -1
    server.check()


def test_results_that_nobody_asks_for_are_forgotten(make_server: Make) -> None:
    server = make_server()
    keys = store(server, 1)
    for n in range(200):
        server.linker.load(f"{n}", kv(keys, [1]))
        assert server.linker.start_layer_wise_loading() == n
        server.linker.quiesce()
    assert server.linker.stats().host.pinned_pages == 0
    assert not server.linker.finish_layer_wise_loading(0)
    assert server.linker.finish_layer_wise_loading(199)


def test_bad_loads_change_nothing(make_server: Make) -> None:
    server = make_server()
    keys = store(server)
    with pytest.raises(ValueError, match="100 slots for 4 pages of 64"):
        server.linker.load("x", [SimpleNamespace(name="kv", keys=keys, device_indices=[1] * 100)])
    assert server.linker.load("x", []) is False
    assert server.linker.load("x", kv(keys, [1, 2, 3, 4]))
    with pytest.raises(ValueError, match="x has a queued load already"):
        server.linker.load("x", kv(keys, [1, 2, 3, 4]))
    assert server.linker.stats().host.pinned_pages == 4
    server.linker.cancel_queued_load("x")
    server.linker.load("y", kv(keys, [1, 2, 3, 3]))  # one slot for two pages
    index = server.linker.start_layer_wise_loading()
    assert server.linker.finish_layer_wise_loading(index) is False
    assert server.linker.stats().host.pinned_pages == 0
    server.check()


# ---- offloads ----


def test_f02_an_offload_waits_for_the_forward_stream(make_server: Make) -> None:
    """The pages are written by work that is queued, not done, when the offload is queued."""
    with CpuStream() as forward:
        server = make_server(forward_stream=forward)
        gate = threading.Event()
        forward.enqueue(gate.wait)
        forward.enqueue(server.mirror.write, 5, "f" * 64)
        assert server.linker.offload(kv(["f" * 64], [5]))
        assert server.linker.num_completed_offloads() == 0
        gate.set()
        server.linker.quiesce()
        assert server.linker.pop_completed_offload() is True
    server.mirror.poison([5])
    server.linker.load("x", kv(["f" * 64], [5]))
    server.mirror.expect(5, "f" * 64)
    assert server.linker.finish_layer_wise_loading(server.linker.start_layer_wise_loading())
    server.check()


def test_what_is_stored_already_is_not_copied_again(make_server: Make) -> None:
    server = make_server()
    keys = store(server, 3)
    more = [*keys, "9" * 64]
    server.mirror.write(4, more[-1])
    server.linker.offload(kv(more, [1, 2, 3, 4]))  # pages 1..3 are poisoned: must not be read
    server.linker.quiesce()
    assert server.linker.pop_completed_offload() is True
    assert server.linker.stats().stored_pages == 4
    server.linker.load("x", kv(more, [5, 6, 7, 8]))
    for page, key in zip([5, 6, 7, 8], more, strict=True):
        server.mirror.expect(page, key)
    assert server.linker.finish_layer_wise_loading(server.linker.start_layer_wise_loading())
    server.check()


def test_an_offload_below_one_that_fails_fails_too(make_server: Make) -> None:
    """F24: nothing is stored below a page that isn't."""
    server = make_server()
    tokens = prompt(1, 4, PAGE)
    keys = page_hashes(tokens, PAGE)
    with hold(server.linker.engine, "d2h"):
        fail_next(server.linker.engine, "d2h")
        server.serve(tokens[: 2 * PAGE])
        server.serve(tokens)
    assert server.settle() == [False, False]
    assert server.linker.lookup("x", kv(keys)) == []
    assert server.linker.stats().host.free_pages == server.linker.host_pool.num_pages


def test_bad_offloads_change_nothing(make_server: Make) -> None:
    server = make_server()
    with pytest.raises(ValueError, match="64 slots for 2 pages of 64"):
        server.linker.offload(
            [SimpleNamespace(name="kv", keys=["a", "b"], device_indices=list(range(64, 128)))]
        )
    assert server.linker.offload([]) is False
    with pytest.raises(IndexError, match="no offload has ended"):
        server.linker.pop_completed_offload()
    server.check()


# ---- what SGLang would not do, and what a driver may ----


def test_a_load_that_cannot_be_submitted_fails_its_batch(make_server: Make) -> None:
    """Also with slots that are no integers: no pin is left, and other ranks hear of it."""
    server = make_server()
    keys = store(server)
    transfers = kv(keys, [5, 6, 7, 8])
    transfers[0].device_indices = transfers[0].device_indices.float()
    server.linker.load("x", transfers)
    index = server.linker.start_layer_wise_loading()
    assert not server.linker.finish_layer_wise_loading(index)
    stats = server.linker.stats()
    assert (stats.failed_loads, stats.host.pinned_pages) == (1, 0)


def test_an_offload_that_cannot_be_submitted_keeps_its_turn(
    make_server: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = make_server()

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("the driver")

    with monkeypatch.context() as patch:
        patch.setattr(server.linker.engine, "record", broken)
        assert server.linker.offload(kv(["a" * 64, "b" * 64], [5, 6]))
    assert server.linker.num_completed_offloads() == 1
    assert not server.linker.pop_completed_offload()
    stats = server.linker.stats()
    assert (stats.failed_offloads, stats.host.pending_pages) == (1, 0)


def test_bad_keys_change_nothing(make_server: Make) -> None:
    server = make_server(host_pages=4)
    old, _ = store(server, 2, seed=1), store(server, 2, seed=2)
    before = server.linker.stats()
    with pytest.raises(TypeError, match="bytes or str"):
        server.linker.lookup("x", kv([1]))  # type: ignore[list-item]
    with pytest.raises(ValueError, match="again"):
        server.linker.offload(kv([*old, "c" * 64, "c" * 64], [5, 6, 7, 8]))
    assert server.linker.stats() == before
    store(server, 2, seed=3)
    assert server.linker.index.prefix(old) == 0  # they weren't used: the first to go
