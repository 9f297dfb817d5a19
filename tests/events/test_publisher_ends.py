"""Arguments that are refused, failures that are told, and the end of a publisher."""

from __future__ import annotations

import os
import signal
import threading
import tracemalloc
from typing import Any

import pytest
import zmq
from router import SECONDS, Router
from small_cache import LONG, SmallCache

import hicache_nsa as hc
from hicache_nsa.kv_events import KvEventPublisher
from hicache_nsa.kv_events.endpoints import binds, endpoint_of_rank
from hicache_nsa.kv_events.kept_batches import KeptBatches

ANY = "tcp://127.0.0.1:*"
A = list(range(16))


def publisher_threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "hicache-kv-events"]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"format": "trtllm"}, ValueError, "vllm, sglang, got 'trtllm'"),
        ({"extra_key_as": "lora"}, ValueError, "cache_salt, lora_name, got 'lora'"),
        ({"endpoint": "localhost:5557"}, ValueError, "tcp://ADDRESS:PORT"),
        ({"endpoint": "inproc://cache"}, ValueError, "tcp://ADDRESS:PORT"),
        ({"endpoint": "ipc://"}, ValueError, "ipc://PATH"),
        ({"endpoint": 5557}, TypeError, "endpoint must be a string, got int"),
        ({"endpoint": "tcp://*:65535", "dp_rank": 1}, ValueError, "above 65535"),
        ({"replay_endpoint": "tcp://*"}, ValueError, "replay_endpoint='tcp://*'"),
        ({"dp_rank": -1}, ValueError, "dp_rank=-1"),
        ({"dp_rank": 0.5}, TypeError, "dp_rank"),
        ({"interval": 0}, ValueError, "interval=0 s"),
        ({"interval": float("nan")}, ValueError, "interval=nan s"),
        ({"interval": "1"}, TypeError, "interval must be seconds"),
        ({"replay_size": "64 apples"}, ValueError, "replay_size"),
        ({"replay_size": -1}, ValueError, "replay_size=-1"),
        ({"capacity": 0}, ValueError, "capacity=0"),
        ({"hwm": 0}, ValueError, "hwm=0"),
        ({"topic": 7}, TypeError, "topic must be a string, got int"),
    ],
    ids=str,
)
def test_bad_arguments(options: dict[str, Any], error: type[Exception], words: str) -> None:
    cache = SmallCache(16, 16)
    with pytest.raises(error, match=words.replace("*", r"\*")):
        KvEventPublisher(cache.cache, **{"endpoint": ANY, **options})
    assert publisher_threads() == [] and cache.tree.watcher is None


@pytest.mark.parametrize("name", ["endpoint", "replay_endpoint"])
def test_an_address_in_use_is_named_and_nothing_stays_open(name: str) -> None:
    cache = SmallCache(16, 16)
    context = zmq.Context()
    taken = context.socket(zmq.PUB)
    port = taken.bind_to_random_port("tcp://127.0.0.1")
    options = {"endpoint": ANY, "replay_endpoint": ANY, name: f"tcp://127.0.0.1:{port}"}
    if name == "endpoint":
        options[name] = f"tcp://0.0.0.0:{port}"
    with pytest.raises(hc.HiCacheError, match=rf"^{name}='tcp://.*:{port}' can't be used: Addr"):
        KvEventPublisher(cache.cache, **options)
    assert publisher_threads() == [] and cache.tree.watcher is None
    context.destroy(linger=0)


def test_a_closed_cache_gets_no_publisher() -> None:
    cache = SmallCache(16, 16)
    cache.cache.close()
    with pytest.raises(hc.HiCacheError, match="the cache is closed"):
        KvEventPublisher(cache.cache, ANY)
    assert publisher_threads() == []


@pytest.mark.parametrize(
    ("endpoint", "rank", "found"),
    [
        ("tcp://*:5557", 0, "tcp://*:5557"),
        ("tcp://*:5557", 3, "tcp://*:5560"),
        ("tcp://[::1]:5557", 1, "tcp://[::1]:5558"),
        ("tcp://host:0", 3, "tcp://host:0"),
        ("tcp://127.0.0.1:*", 3, "tcp://127.0.0.1:*"),
        ("ipc://run/kv", 0, "ipc://run/kv"),
        ("ipc://run/kv", 2, "ipc://run/kv_dp2"),
    ],
)
def test_each_rank_has_an_address_of_its_own(endpoint: str, rank: int, found: str) -> None:
    assert endpoint_of_rank(endpoint, rank) == found


def test_which_addresses_are_bound() -> None:
    for endpoint in ("tcp://*:1", "tcp://0.0.0.0:1", "tcp://[::]:1", "ipc://x"):
        assert binds(endpoint)
    assert not binds("tcp://router.example:5557") and not binds("tcp://127.0.0.1:5557")


def test_many_small_batches_take_no_more_memory_than_was_given() -> None:
    tracemalloc.start()
    try:
        kept = KeptBatches(1 << 20)
        for number in range(1000, 51_000):
            kept.add(number, number.to_bytes(8, "big") * 4)
        assert tracemalloc.get_traced_memory()[0] < 1.2 * (1 << 20)
    finally:
        tracemalloc.stop()
    assert kept.first(51_000) < 50_000
    assert [number for number, _ in kept.since(50_998)] == [50_998, 50_999]


def test_a_publisher_may_connect_to_a_router_that_binds() -> None:
    context = zmq.Context()
    sub = context.socket(zmq.SUB)
    sub.subscribe(b"")
    port = sub.bind_to_random_port("tcp://127.0.0.1")
    cache = SmallCache(16, 0)
    with KvEventPublisher(cache.cache, f"tcp://127.0.0.1:{port}") as publisher:
        for _ in range(1000):  # until the connection is there
            cache.put(A)
            cache.evict_device(10**6)
            assert publisher.flush(SECONDS)
            if sub.poll(10):
                break
        topic, number, payload = sub.recv_multipart()
        assert topic == b"" and len(number) == 8 and payload
        assert publisher.replay_endpoint is None
    context.destroy(linger=0)


def test_a_rank_is_in_its_batches() -> None:
    cache = SmallCache(16, 0)
    with KvEventPublisher(cache.cache, ANY, replay_endpoint=ANY, dp_rank=5) as publisher:
        router = Router(publisher)
        cache.put(A)
        router.catch_up()
        assert router.ranks == {5}
        router.close()


def test_what_happened_before_close_is_published() -> None:
    cache = SmallCache(16, 16)
    publisher = KvEventPublisher(cache.cache, ANY, replay_endpoint=ANY, interval=3600)
    cache.put(A)
    publisher.close()
    assert publisher.published == 1
    publisher.close()
    assert publisher_threads() == [] and cache.tree.watcher is None
    for call in (publisher.publish, publisher.flush):
        with pytest.raises(hc.HiCacheError, match="is closed"):
            call()
    again = KvEventPublisher(cache.cache, publisher.endpoint.replace("127.0.0.1", "0.0.0.0"))
    again.close()


def test_a_cache_that_is_closed_first_is_told() -> None:
    cache = SmallCache(16, 16)
    publisher = KvEventPublisher(cache.cache, ANY, interval=3600)
    cache.cache.close()
    with pytest.raises(hc.HiCacheError, match="the cache is closed"):
        publisher.flush(SECONDS)
    with pytest.raises(hc.HiCacheError, match="ended after 0 batches: the cache is closed"):
        publisher.close()
    publisher.close()
    assert publisher_threads() == []


def test_a_failure_of_the_thread_is_raised_by_the_next_call(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(payload: bytes, anew: bool) -> None:
        raise OSError("no more sockets")

    cache = SmallCache(16, 16)
    publisher = KvEventPublisher(cache.cache, ANY, interval=3600)
    monkeypatch.setattr(publisher._sender, "publish", fail)
    cache.put(A)
    with pytest.raises(hc.HiCacheError, match="no more sockets"):
        publisher.flush(SECONDS)
    with pytest.raises(hc.HiCacheError, match="no more sockets") as raised:
        publisher.publish()
    assert isinstance(raised.value.__cause__, OSError)
    assert "no more sockets" in caplog.text
    assert cache.drain(LONG) and cache.put(A).duplicate_tokens == 16  # the cache goes on
    assert cache.tree.watcher is None
    with pytest.raises(hc.HiCacheError, match="no more sockets"):
        publisher.close()


def test_a_child_forked_while_the_lock_is_held_does_not_hang() -> None:
    cache = SmallCache(16, 16)
    publisher = KvEventPublisher(cache.cache, ANY)
    held, forked = threading.Event(), threading.Event()

    def hold() -> None:
        with publisher._changed:
            held.set()
            forked.wait(SECONDS)

    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(SECONDS)
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        refused = 0
        for call in (publisher.publish, publisher.flush):
            try:
                call()
            except hc.HiCacheError as error:
                refused += "parent process" in str(error)
        publisher.close()
        os._exit(0 if refused == 2 else 1)
    forked.set()
    holder.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    publisher.close()


def test_a_forked_child_has_no_publisher() -> None:
    cache = SmallCache(16, 16)
    with KvEventPublisher(cache.cache, ANY, replay_endpoint=ANY) as publisher:
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            try:
                publisher.publish()
            except hc.HiCacheError as error:
                publisher.close()
                os._exit(0 if "parent process" in str(error) else 2)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        router = Router(publisher)
        cache.put(A)
        router.catch_up()
        assert len(router.sets["device"]) == 4
        router.close()
