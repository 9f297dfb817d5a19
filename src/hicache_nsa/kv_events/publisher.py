"""``KvEventPublisher``: the KV events of a cache, over ZeroMQ, by a thread of its own."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import threading
import time
from collections.abc import Iterator, Sequence

from hicache_nsa.cache import Cleared, HiCache, KvEvent, Removed, Stored
from hicache_nsa.errors import HiCacheError
from hicache_nsa.formats.checks import count_of, positive_int
from hicache_nsa.kv_events.endpoints import endpoint_of_rank
from hicache_nsa.kv_events.sender import Sender
from hicache_nsa.kv_events.wire import check_extra_key_as, encode_batch, wire_format
from hicache_nsa.sizes import parse_size

_log = logging.getLogger("hicache_nsa.kv_events")
BATCH_PAGES = 4096
"""A batch ends with the event by which it names so many pages."""
REST = 9
"""After everything was published anew for somebody who asked, as many times as long as that took
nobody else gets it."""


class KvEventPublisher:
    """Publishes what ``cache`` caches and drops, as vLLM and SGLang do it. Close it first.

    A thread takes the events every ``interval`` seconds, or when ``publish()`` is called, and sends
    them. No call of the cache waits for it, but for a walk where all is told. Until it is closed it
    keeps the cache's memory, also of a cache that nobody else has any more. A subscriber that is
    too slow misses batches, sees that by their numbers, and asks the replay address; where what it
    missed is no longer kept, everything is published anew, behind an event that clears.

    endpoint: ``tcp://*:5557`` binds; an address without ``*``, ``0.0.0.0`` or ``::`` is connected
        to. ``ipc://PATH`` binds. replay_endpoint: where past batches are asked for, always bound;
        None: nowhere. The ports of both count up with ``dp_rank``.
    format: ``"vllm"`` or ``"sglang"``. topic: of every batch (llm-d: ``kv@POD@MODEL``).
    dp_rank: this cache's data parallel rank, which every batch names.
    extra_key_as: what an ``extra_key`` is for the router, ``"cache_salt"`` or ``"lora_name"``.
    interval: seconds between two looks at the cache. replay_size: bytes of batches kept for replay;
        they should hold everything that is cached.
    capacity: see ``HiCache.record_events``. hwm: batches that may wait for one subscriber.

    Raises:
        ValueError, TypeError: an argument that doesn't fit.
        HiCacheError: an address that can't be used. Nothing is left open.
    """

    def __init__(
        self,
        cache: HiCache,
        endpoint: str = "tcp://*:5557",
        *,
        format: str = "vllm",
        replay_endpoint: str | None = None,
        topic: str = "",
        dp_rank: int = 0,
        extra_key_as: str = "cache_salt",
        interval: float = 0.05,
        replay_size: int | str = "64MiB",
        capacity: int = 65_536,
        hwm: int = 100_000,
    ) -> None:
        wire_format(format)
        check_extra_key_as(extra_key_as)
        if not isinstance(topic, str):
            raise TypeError(f"topic must be a string, got {type(topic).__name__}")
        rank = count_of(dp_rank, "dp_rank")
        replay = replay_endpoint
        if replay is not None:
            replay = endpoint_of_rank(replay, rank, "replay_endpoint")
        self._milliseconds = _interval_ms(interval)
        self._format, self._rank, self._extra_key_as = format, rank, extra_key_as
        capacity = positive_int(capacity, "capacity")
        replay_bytes = parse_size(replay_size, "replay_size")
        self._sender = Sender(
            endpoint_of_rank(endpoint, rank),
            replay,
            topic,
            positive_int(hwm, "hwm", (1 << 31) - 1),
            replay_bytes,
        )
        self.endpoint = self._sender.endpoint
        self.replay_endpoint = self._sender.replay_endpoint
        try:
            self._events = cache.record_events(capacity)
        except BaseException:
            self._sender.close()
            raise
        self._process = os.getpid()
        self._changed = threading.Condition()
        self._wanted = self._done = 0  # calls of flush: made, and served
        self._stop = self._finished = False
        self._owed = False  # somebody asked for what is no longer kept
        self._rests_until = 0.0
        self._most_kept = math.inf if replay is None else replay_bytes
        self._warned = False
        self._error: BaseException | None = None
        self._wake = os.eventfd(0, os.EFD_NONBLOCK)
        self._thread = threading.Thread(target=self._run, name="hicache-kv-events", daemon=True)
        self._thread.start()

    @property
    def published(self) -> int:
        """Batches so far; the next one has this number."""
        return self._sender.published

    def publish(self) -> None:
        """Publish now what has happened. Returns at once: for the end of an engine's step.

        Raises:
            HiCacheError: publishing has ended: closed, failed, or this is a forked child.
        """
        self._require_own_process()
        with self._changed:
            self._require_running()
            os.eventfd_write(self._wake, 1)

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until all that has happened is handed to the sockets; False after ``timeout`` s.

        Raises:
            HiCacheError: as ``publish``.
        """
        self._require_own_process()
        with self._changed:
            self._require_running()
            self._wanted = wanted = self._wanted + 1
            os.eventfd_write(self._wake, 1)
            self._changed.wait_for(lambda: self._done >= wanted or self._finished, timeout)
            if self._finished and self._done < wanted:
                self._require_running()
            return self._done >= wanted

    def close(self) -> None:
        """Publish what is left and end. Idempotent. What was published goes on being true for
        subscribers: ``cache.clear()`` first tells them that nothing is cached any more.

        Raises:
            HiCacheError: publishing had failed, or the cache was closed before.
        """
        if os.getpid() != self._process:
            return
        with self._changed:
            if self._stop:
                return
            self._stop = True
            os.eventfd_write(self._wake, 1)
        self._thread.join()
        os.close(self._wake)
        if self._error is not None:
            raise self._failure() from self._error

    def __enter__(self) -> KvEventPublisher:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # -- inside ---------------------------------------------------------------------------------

    def _failure(self) -> HiCacheError:
        return HiCacheError(
            f"publishing KV events has ended after {self.published} batches: {self._error}"
        )

    def _require_own_process(self) -> None:
        """Before the lock is taken: in a forked child nobody will ever release it."""
        if os.getpid() != self._process:
            raise HiCacheError(
                "this publisher belongs to the parent process: make a cache and its publisher "
                "after the fork"
            )

    def _require_running(self) -> None:
        if self._error is not None:
            raise self._failure() from self._error
        if self._stop:
            raise HiCacheError("the publisher of KV events is closed")

    def _run(self) -> None:
        """The thread: take, encode, send, answer; what goes wrong is kept for the next call."""
        try:
            while self._step():
                pass
        except BaseException as error:
            _log.exception("publishing KV events has ended")
            self._error = error
        finally:
            self._events.close()
            self._sender.close()
            with self._changed:
                self._finished = True
                self._changed.notify_all()

    def _step(self) -> bool:
        """Wait for something to do and do it; False once it was the last time."""
        asked = self._sender.wait(self._wake, self._milliseconds)
        with contextlib.suppress(BlockingIOError):  # nobody woke us
            os.eventfd_read(self._wake)
        with self._changed:  # after that: who comes later wakes us again
            stop, wanted = self._stop, self._wanted
        if asked and not self._sender.answer():
            self._owed = True
        began = time.monotonic()
        anew = self._owed and began >= self._rests_until
        if anew:
            self._owed = False
            self._events.restart()
        self._publish(self._events.take())
        if anew:
            now = time.monotonic()
            self._rests_until = now + REST * (now - began)
        with self._changed:
            self._done = wanted
            self._changed.notify_all()
        return not stop

    def _publish(self, events: Sequence[KvEvent]) -> None:
        size = 0
        for batch in _batches(events):
            payload = self._encoded(batch)
            size += len(payload)
            self._sender.publish(payload, batch[0] == Cleared())
        if size > self._most_kept and not self._warned:
            self._warned = True
            _log.warning(
                "replay_size=%d bytes is less than what was published at once, %d bytes: whoever "
                "comes late makes everything be published anew, for all; give twice as much",
                self._most_kept,
                size,
            )

    def _encoded(self, batch: Sequence[KvEvent]) -> bytes:
        return encode_batch(
            self._format,
            batch,
            seconds=time.time(),
            dp_rank=self._rank,
            extra_key_as=self._extra_key_as,
        )


def _interval_ms(interval: float) -> int:
    if isinstance(interval, bool) or not isinstance(interval, (int, float)):
        raise TypeError(f"interval must be seconds, got {interval!r}")
    if not 0.001 <= interval <= 3600:
        raise ValueError(f"interval={interval} s is outside 0.001..3600")
    return math.ceil(interval * 1000)


def _batches(events: Sequence[KvEvent]) -> Iterator[list[KvEvent]]:
    batch: list[KvEvent] = []
    pages = 0
    for event in events:
        batch.append(event)
        pages += len(event.page_keys) if isinstance(event, (Stored, Removed)) else 0
        if pages >= BATCH_PAGES:
            yield batch
            batch, pages = [], 0
    if batch:
        yield batch
