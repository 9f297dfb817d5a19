"""Over real sockets a router has what is cached: live, by replay, late, and after losses."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from random import Random
from typing import Any

import pytest
import rules
from configurations import configuration
from consumer import cached
from router import SECONDS, Router
from small_cache import LONG, SmallCache
from world import World

from hicache_nsa.kv_events import FORMATS, KvEventPublisher

ANY = "tcp://127.0.0.1:*"
A, B = list(range(16)), list(range(100, 116))
NAMES = {"vllm": "lora_name", "sglang": "cache_salt"}
Open = Callable[..., tuple[KvEventPublisher, Router]]


@pytest.fixture
def opened() -> Iterator[Open]:
    """``opened(cache, **options)``: a publisher and a router of it, closed at the end."""
    with ExitStack() as stack:

        def open_both(cache: Any, topic: str = "", **options: Any) -> tuple[Any, Router]:
            options = {"replay_endpoint": ANY, "interval": 0.01, **options}
            publisher = KvEventPublisher(cache, ANY, topic=topic, **options)
            stack.callback(publisher.close)
            router = Router(publisher, options.get("format", "vllm"), topic)
            stack.callback(router.close)
            return publisher, router

        yield open_both


@pytest.mark.parametrize("deaf", [0, 3])
@pytest.mark.parametrize("format", FORMATS)
def test_a_router_follows_a_random_history(format: str, deaf: int, opened: Open) -> None:
    """deaf: of so many live batches the router misses one, and replays it."""
    for seed in range(3):
        world = World(configuration(Random(seed)))
        with ExitStack() as stack:
            stack.callback(world.close)
            # vLLM has no place for a salt but a prompt's first block.
            publisher, router = opened(world.cache, format=format, extra_key_as=NAMES[format])
            stack.callback(publisher.close)
            if deaf:
                router.deaf = lambda number: number % deaf == 0
            rng = Random(seed)
            for step in range(150):
                rules.step(world, rules.any_rule(rng), rng)
                if step % 5 == 0:
                    router.catch_up()
                    assert router.sets == cached(world.cache)
            if deaf:
                assert router.replayed > 0


def test_batches_are_heard_live(opened: Open) -> None:
    cache = SmallCache(16, 16)
    publisher, router = opened(cache.cache, topic="kv@pod@model")
    for _ in range(1000):  # until the subscription has arrived
        cache.put(A)
        cache.evict_device(10**6)
        assert publisher.flush(SECONDS)
        router._hear(10)
        if router.live:
            break
    router.catch_up()
    assert router.live > 0 and router.sets == cached(cache.cache)


def wait_for_a_batch(publisher: KvEventPublisher) -> None:
    tick = threading.Event()
    for _ in range(3000):
        if publisher.published:
            break
        tick.wait(0.01)
    assert publisher.published == 1


def test_without_a_call_the_thread_looks_by_itself(opened: Open) -> None:
    cache = SmallCache(16, 0)
    publisher, _ = opened(cache.cache)
    cache.put(A)
    wait_for_a_batch(publisher)


def test_publish_returns_and_the_thread_does_it(opened: Open) -> None:
    cache = SmallCache(16, 0)
    publisher, _ = opened(cache.cache, interval=3600)
    cache.put(A)
    assert publisher.published == 0
    publisher.publish()
    wait_for_a_batch(publisher)


def test_a_router_that_comes_late_replays_from_the_first_batch(opened: Open) -> None:
    cache = SmallCache(16, 16)
    cache.put(A)  # before anybody published
    publisher, first = opened(cache.cache)
    for tokens in (B, A[:8] + B[:8]):
        cache.put(tokens)
        assert cache.drain(LONG)
        assert publisher.flush(SECONDS)
    late = Router(publisher)
    late.catch_up()
    first.catch_up()
    assert late.sets == first.sets == cached(cache.cache)
    assert late.ranks == {0}
    late.close()


def test_what_is_no_longer_kept_is_published_anew(opened: Open) -> None:
    cache = SmallCache(16, 16)
    publisher, router = opened(cache.cache, replay_size=2000)  # a few batches
    router.deaf = lambda number: True
    for index in range(9):
        cache.put(range(index * 50, index * 50 + 16))
        assert cache.drain(LONG) and publisher.flush(SECONDS)
    published = publisher.published
    late = Router(publisher)
    found = [number for number, _ in late.replay(0)]
    assert 0 < len(found) < 9 and found[-1] == published - 1
    late.catch_up()
    assert late.sets == cached(cache.cache)
    assert publisher.published == published + 1
    assert [number for number, _ in late.replay(0)][-1] == published  # which is enough
    assert publisher.flush(SECONDS) and publisher.published == published + 1
    late.close()


def test_whoever_asks_again_and_again_does_not_keep_the_publisher_busy(
    opened: Open, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Everything is more than is kept. It is published anew once, and again after a rest."""
    monkeypatch.setattr("hicache_nsa.kv_events.publisher.REST", 1e9)
    cache = SmallCache(16, 0)
    cache.put(A)
    publisher, router = opened(cache.cache, replay_size=10)
    assert publisher.flush(SECONDS)
    first = publisher.published
    assert caplog.text.count("replay_size=10 bytes is less than") == 1
    for _ in range(20):
        assert router.replay(0) == []
        assert publisher.flush(SECONDS)
    assert publisher.published == first + 1
    publisher._rests_until = 0.0
    assert publisher.flush(SECONDS) and publisher.published == first + 2  # owed until then
    assert publisher.flush(SECONDS) and publisher.published == first + 2
    assert caplog.text.count("replay_size=10") == 1


def test_a_whole_replay_publishes_nothing_anew(opened: Open) -> None:
    cache = SmallCache(16, 0)
    publisher, router = opened(cache.cache)
    assert router.replay(0) == [] == router.replay(7)
    cache.put(A)
    assert publisher.flush(SECONDS)
    assert [number for number, _ in router.replay(0)] == [0]
    assert router.replay(1) == []
    assert publisher.flush(SECONDS) and publisher.published == 1


@pytest.mark.parametrize(
    "frames", [(b"",), (b"", b"1"), (b"x", bytes(8)), (b"", b"", bytes(8)), (b"", bytes(9))]
)
def test_a_replay_request_of_another_shape_is_answered_with_the_end(
    frames: tuple[bytes, ...], opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    cache = SmallCache(16, 0)
    publisher, router = opened(cache.cache)
    cache.put(A)
    assert publisher.flush(SECONDS)
    router.send(*frames)
    assert router.answer() == []
    assert "must be an empty frame and 8 bytes" in caplog.text
    router.catch_up()
    assert router.sets == cached(cache.cache)


def test_a_subscriber_that_does_not_listen_stops_nobody(opened: Open) -> None:
    """It misses batches (its queues hold one), and has everything once it listens again."""
    cache = SmallCache(512, 0)
    publisher, router = opened(cache.cache, hwm=1, replay_size="1GiB")
    router.catch_up()
    tokens = list(range(1 << 40, (1 << 40) + 2048))  # 9 bytes a token: 20 kB a batch
    for _ in range(600):
        cache.cache.insert(tokens, cache.cache.allocate(512))
        assert publisher.flush(SECONDS)
        cache.cache.evict_device(10**6)
    router.catch_up()
    assert router.replayed > 0 and router.sets == cached(cache.cache)


def test_no_call_of_the_cache_waits_for_the_publisher(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = SmallCache(16, 16)
    publisher, router = opened(cache.cache)
    goes_on, arrived = threading.Event(), threading.Event()
    send = publisher._sender.publish

    def slow(payload: bytes, anew: bool) -> None:
        arrived.set()
        assert goes_on.wait(SECONDS)
        send(payload, anew)

    monkeypatch.setattr(publisher._sender, "publish", slow)
    cache.put(A)
    assert arrived.wait(SECONDS)
    cache.put(B)
    assert cache.drain(LONG)
    cache.reset()
    publisher.publish()
    assert not publisher.flush(0.01)
    goes_on.set()
    router.catch_up()
    assert router.sets == cached(cache.cache)


def test_many_threads_work_while_events_are_published(opened: Open) -> None:
    cache = SmallCache(64, 64)
    _, router = opened(cache.cache, interval=0.001, capacity=40)
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        rng = Random(seed)
        try:
            for _ in range(150):
                first = rng.randrange(20) * 50
                tokens = list(range(first, first + 4 * rng.randrange(1, 9)))
                cache.cache.insert(tokens, cache.cache.allocate(len(tokens) // 4))
                if rng.random() < 0.1:
                    cache.cache.evict_device(40)
                if rng.random() < 0.02:
                    cache.cache.invalidate()
        except (ValueError, RuntimeError) as error:
            if "invalidate" not in str(error):  # pages from before one
                failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        router.catch_up()
    for thread in threads:
        thread.join()
    assert failures == []
    assert cache.cache.drain(LONG)
    router.catch_up()
    assert router.sets == cached(cache.cache)


def test_a_long_list_of_events_is_several_batches(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hicache_nsa.kv_events.publisher.BATCH_PAGES", 6)
    cache = SmallCache(64, 0)
    for index in range(8):
        cache.put(range(index * 50, index * 50 + 16))
    publisher, router = opened(cache.cache)
    router.catch_up()
    assert publisher.published == 4
    assert router.sets == cached(cache.cache)
