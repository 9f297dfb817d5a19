"""Flush, change of weights and end of a linker, call by call. No SGLang, no GPU."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from kv_pools import PAGE
from linker_scenarios import prompt
from linker_transfers import kv, store

from hicache_nsa.errors import HiCacheError
from hicache_nsa.testing import hold

Make = Callable[..., Any]


def test_f18_a_flush_drops_what_is_queued(make_server: Make) -> None:
    server = make_server()
    keys = store(server)
    server.linker.lookup("x", kv(keys))
    server.linker.lookup("y", kv(keys))
    server.linker.load("x", kv(keys, [1, 2, 3, 4]))
    server.linker.layer_done_counter.set_consumer(3)
    server.flush()
    stats = server.linker.stats()
    assert (stats.leases, stats.host.pinned_pages, stats.host.hit_pages) == (0, 0, 4)
    assert server.linker.start_layer_wise_loading() == -1
    assert server.linker.layer_done_counter.consumer_index == -1


def test_f12_without_keeping_a_flush_drops_host_pages(make_server: Make) -> None:
    server = make_server(keep_on_flush=False)
    keys = store(server)
    server.flush()
    assert server.linker.lookup("x", kv(keys)) == []
    assert server.linker.stats().host.free_pages == server.linker.host_pool.num_pages


def test_f12_new_weights_fail_what_was_promised(make_server: Make) -> None:
    server = make_server()
    keys = store(server)
    server.linker.lookup("leased", kv(keys))
    server.linker.load("queued", kv(keys, [1, 2, 3, 4]))
    server.linker.invalidate()
    assert (
        server.linker.finish_layer_wise_loading(server.linker.start_layer_wise_loading()) is False
    )
    assert server.linker.lookup("leased", kv(keys)) == []
    stats = server.linker.stats()
    assert stats.suspended
    assert stats.host.free_pages == server.linker.host_pool.num_pages
    server.serve(prompt(5, 2, PAGE))
    assert server.settle() == [False]
    server.flush()
    assert not server.linker.stats().suspended
    server.serve(prompt(5, 2, PAGE))
    assert server.settle() == [True]


def test_close_waits_and_is_idempotent(make_server: Make) -> None:
    server = make_server()
    server.serve(prompt(1, 4, PAGE))
    server.linker.close()
    assert server.linker.stats().stored_pages == 4
    server.linker.close()
    server.linker.reset()
    server.linker.invalidate()


def test_after_close_nothing_is_found_and_nothing_taken(make_server: Make) -> None:
    server = make_server()
    keys = store(server)
    linker = server.linker
    linker.lookup("leased", kv(keys))
    linker.load("queued", kv(keys, [1, 2, 3, 4]))
    linker.close()
    closed = linker.stats()
    assert (closed.leases, closed.host.pinned_pages) == (0, 0)
    linker.above("x", keys[0])
    assert linker.lookup("x", kv(keys)) == []
    with pytest.raises(HiCacheError, match=r"load after close.*make a new one"):
        linker.load("x", kv(keys, [1, 2, 3, 4]))
    with pytest.raises(HiCacheError, match=r"offload after close.*make a new one"):
        linker.offload(kv(keys, [1, 2, 3, 4]))
    assert linker.start_layer_wise_loading() == -1
    linker.layer_done_counter.set_consumer(0)
    linker.layer_done_counter.wait_until(0)
    assert linker.finish_layer_wise_loading(-1)
    assert not linker.finish_layer_wise_loading(0)
    assert not linker.cancel_queued_load("queued")
    assert linker.num_completed_offloads() == 0
    with pytest.raises(IndexError, match="no offload has ended"):
        linker.pop_completed_offload()
    linker.quiesce()
    linker.reset()
    linker.invalidate()
    linker.check()
    assert linker.stats() == closed


def test_f12_new_weights_drop_pages_also_where_waiting_fails(
    make_server: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = make_server()
    keys = store(server)

    def lost() -> None:
        raise RuntimeError("a lost device")

    with monkeypatch.context() as patch:
        patch.setattr(server.linker, "quiesce", lost)
        with pytest.raises(RuntimeError, match="a lost device"):
            server.linker.invalidate()
    assert server.linker.stats().suspended
    assert server.linker.lookup("x", kv(keys)) == []
    server.linker.reset()
    assert server.linker.lookup("x", kv(keys)) == []


def test_f12_copies_in_flight_do_not_survive_new_weights(make_server: Make) -> None:
    """A save of the old weights that ends later is no hit, and SGLang is told that it isn't."""
    server = make_server()
    keys = store(server, 2, seed=1)
    with hold(server.linker.engine, "d2h"), hold(server.linker.engine, "h2d"):
        server.linker.load("x", kv(keys, [1, 2]))
        index = server.linker.start_layer_wise_loading()
        server.linker.offload(kv(["a" * 64], [5]))
        ending = threading.Thread(target=server.linker.invalidate)
        ending.start()
        ending.join(0.05)
        assert ending.is_alive()  # it waits for both copies
    ending.join(30)
    assert server.linker.num_completed_offloads() == 1
    assert server.linker.pop_completed_offload() is False
    assert server.linker.finish_layer_wise_loading(index)
    for page, key in zip([1, 2], keys, strict=True):
        server.mirror.expect(page, key)
    server.linker.reset()
    assert server.linker.lookup("y", kv(["a" * 64])) == []
    assert server.linker.stats().host.free_pages == server.linker.host_pool.num_pages
    server.check()


def test_f12_a_prompt_of_less_than_a_page_is_a_request_too(make_server: Make) -> None:
    """It grows beyond a page under old and new weights, and SGLang looks nothing up for it."""
    server = make_server()
    server.linker.reset()
    server.linker.above("short", None)
    server.linker.invalidate()
    assert server.linker.stats().suspended
    assert server.linker.offload(kv(["a" * 64], [5]))
    assert server.linker.num_completed_offloads() == 1
    assert not server.linker.pop_completed_offload()
    assert server.linker.lookup("x", kv(["a" * 64])) == []
