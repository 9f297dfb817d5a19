"""The log: bounded, never silently short, one consumer, and an end."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import pytest
from consumer import Consumer, cached
from small_cache import LONG, SmallCache

import hicache_nsa as hc
from hicache_nsa.cache import Cleared, Stored, event_log, kv_events
from hicache_nsa.cache.kv_events import extra_key_text
from hicache_nsa.tokens import namespace, short_namespace

A, B = list(range(16)), list(range(100, 116))


def test_without_a_log_nobody_watches() -> None:
    cache = SmallCache(16, 16)
    assert cache.tree.watcher is None and cache.cache._state.recorder is None
    log = cache.cache.record_events()
    assert cache.tree.watcher is not None
    log.close()
    log.close()
    assert cache.tree.watcher is None and cache.cache._state.recorder is None


def test_an_overflow_is_told_as_everything_anew() -> None:
    cache = SmallCache(16, 16)
    log = cache.cache.record_events(capacity=9)
    assert log.take() == []
    cache.put(A)
    assert cache.drain(LONG)
    assert log.overflows == 0
    cache.put(B)  # 4 + 4 + 4 pages
    assert log.overflows == 1
    assert cache.drain(LONG)
    events = log.take()
    assert events[0] == Cleared() and len(events) == 5
    consumer = Consumer()
    consumer.apply(events)
    assert consumer.sets == cached(cache.cache)
    assert log.take() == [] and log.overflows == 1
    cache.evict_device(10**6)
    assert sum(len(event.page_keys) for event in log.take()) == 8  # events as before


def test_what_fits_exactly_is_no_overflow() -> None:
    cache = SmallCache(16, 0)
    log = cache.cache.record_events(capacity=4)
    log.take()
    for _ in range(3):
        cache.put(A)
        assert len(log.take()) == 1
        cache.evict_device(10**6)
        assert len(log.take()) == 1
    assert log.overflows == 0


def test_nothing_is_kept_while_a_log_is_behind() -> None:
    cache = SmallCache(16, 16)
    log = cache.cache.record_events()
    cache.put(A)
    cache.put(B)
    assert log._recorder._records == [] and log._recorder.pages == 0
    events = log.take()
    assert {each.tokens for each in events if each.tier == "device"} == {tuple(A), tuple(B)}


@pytest.mark.parametrize("flush", ["clear", "invalidate"])
def test_a_flush_ends_being_behind(flush: str) -> None:
    cache = SmallCache(16, 16)
    log = cache.cache.record_events(capacity=1)
    log.take()
    cache.put(A)
    assert log.overflows == 1
    getattr(cache, flush)()
    assert log.take() == [Cleared()]
    assert log.take() == []


def test_restart_tells_everything_anew() -> None:
    cache = SmallCache(16, 0)
    log = cache.cache.record_events()
    cache.put(A)
    (event,) = log.take()
    log.restart()
    cache.put(B)
    events = log.take()
    assert events[0] == Cleared() and event in events
    assert sorted(each.tokens for each in events[1:]) == [tuple(A), tuple(B)]
    assert log.overflows == 0


def test_telling_everything_keeps_the_lock_for_the_walk_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cache = SmallCache(16, 16)
    cache.put(A)
    cache.put(A[:8] + B[:8], extra_key="other")
    assert cache.drain(LONG)
    log = cache.cache.record_events()
    lock = cache.cache._guard.lock
    free: list[bool] = []

    def record(*fields: Any) -> kv_events.StoredRecord:
        def look() -> None:
            free.append(lock.acquire(blocking=False))
            if free[-1]:
                lock.release()

        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        return made(*fields)

    made = kv_events.StoredRecord
    monkeypatch.setattr(kv_events, "StoredRecord", record)
    consumer = Consumer()
    consumer.apply(log.take())
    assert free == [True] * 4
    assert consumer.sets == cached(cache.cache)


def test_a_take_that_was_interrupted_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = SmallCache(16, 16)
    log = cache.cache.record_events()
    consumer = Consumer()
    consumer.apply(log.take())
    cache.put(A)

    def interrupted(record: Any, page_size: int) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(event_log, "event_of", interrupted)
        with pytest.raises(KeyboardInterrupt):
            log.take()
    assert cache.drain(LONG)
    cache.put(B)
    events = log.take()
    assert events[0] == Cleared()
    consumer.apply(events)
    assert consumer.sets == cached(cache.cache)


def test_a_new_log_ends_the_one_before() -> None:
    cache = SmallCache(16, 16)
    first = cache.cache.record_events()
    second = cache.cache.record_events()
    for call in (first.take, first.restart):
        with pytest.raises(hc.HiCacheError, match="record_events"):
            call()
    first.close()  # ends nothing of the second
    cache.put(A)
    assert len(second.take()) >= 1
    second.close()
    with pytest.raises(hc.HiCacheError, match="closed"):
        second.take()


def test_after_the_end_of_the_cache() -> None:
    cache = SmallCache(16, 16)
    log = cache.cache.record_events()
    cache.cache.close()
    with pytest.raises(hc.HiCacheError, match="the cache is closed"):
        log.take()
    log.close()


def test_a_cache_and_its_log_go_without_the_garbage_collector() -> None:
    cache = SmallCache(16, 16)
    log = cache.cache.record_events()
    cache.put(A)
    log.take()
    state = weakref.ref(cache.cache._state)
    gc.disable()
    try:
        cache.cache.close()
        del cache, log
        assert state() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("capacity", [0, -1, True, 1.5, "many"])
def test_bad_capacities(capacity: object) -> None:
    cache = SmallCache(16, 16)
    with pytest.raises((ValueError, TypeError), match="capacity"):
        cache.cache.record_events(capacity)
    assert cache.tree.watcher is None


def test_tokens_beyond_int32_are_told_as_they_are() -> None:
    cache = SmallCache(16, 0)
    log = cache.cache.record_events()
    tokens = [1 << 40, -5, 3, 0, *A[:4]]
    cache.put(tokens)
    (event,) = log.take()
    assert isinstance(event, Stored) and event.tokens == tuple(tokens)


def test_a_longer_prompt_goes_on_from_the_page_before() -> None:
    cache = SmallCache(16, 0)
    log = cache.cache.record_events()
    cache.put(A[:8])
    cache.put(A)
    first, second = log.take()
    assert second.parent_key == first.page_keys[-1] and second.tokens == tuple(A[8:])


EXTRA_KEYS = [
    *("a", "b", "1", "lora:7", "naïve", "namespace:73", " ", "x" * 200, "y" * 200, "a\nb", ""),
    *(1, -1, b"a", b"", ("a",), ("a", 1), (None,), ("x" * 100, 1), "\ud800"),
]


def test_the_text_of_an_extra_key_is_equal_for_equal_keys_only() -> None:
    assert extra_key_text(namespace(None)) is None
    texts = [extra_key_text(short_namespace(key)) for key in EXTRA_KEYS]
    assert len(set(texts)) == len(EXTRA_KEYS)
    for text in texts:
        assert text and text.encode()  # valid, and never empty
    for key in ("a", "lora:7", "naïve", " "):
        assert extra_key_text(short_namespace(key)) == key
