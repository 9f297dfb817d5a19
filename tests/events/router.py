"""A router on real sockets: hears batches, asks for those it missed, keeps sets of page keys."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import zmq
from consumer import Consumer
from wire_structs import BATCHES, event_of

from hicache_nsa.cache import Cleared
from hicache_nsa.kv_events import KvEventPublisher

SECONDS = 30.0
END = (1 << 64) - 1


class Router:
    """deaf: live batches that it doesn't hear, by number. lost: waits for a ``Cleared``.

    replayed: batches that it asked for. next: the number of the batch that it waits for.
    """

    def __init__(self, publisher: KvEventPublisher, format: str = "vllm", topic: str = "") -> None:
        self._publisher = publisher
        self._context = zmq.Context()
        self._context.setsockopt(zmq.LINGER, 0)
        self._sub = self._context.socket(zmq.SUB)
        self._sub.setsockopt_string(zmq.SUBSCRIBE, topic)
        self._sub.setsockopt(zmq.RCVHWM, 1)
        self._sub.setsockopt(zmq.RCVBUF, 4096)
        self._sub.connect(publisher.endpoint)
        self._dealer = None
        if publisher.replay_endpoint is not None:
            self._dealer = self._context.socket(zmq.DEALER)
            self._dealer.connect(publisher.replay_endpoint)
        self._decoder = msgspec.msgpack.Decoder(BATCHES[format])
        self.consumer = Consumer()
        self.next = self.live = self.replayed = 0
        self.lost = False
        self.deaf: Any = lambda number: False
        self.ranks: set[int | None] = set()

    @property
    def sets(self) -> dict[str, set[int]]:
        return self.consumer.sets

    def catch_up(self) -> None:
        """Hear everything that was published until now."""
        assert self._publisher.flush(SECONDS)
        limit = time.monotonic() + SECONDS
        while self.next < self._publisher.published or self.lost:
            assert time.monotonic() < limit
            if not self._hear(10):
                self.ask()
                assert self._publisher.flush(SECONDS)

    def _hear(self, milliseconds: int) -> bool:
        heard = False
        while self._sub.poll(milliseconds):
            heard = True
            _, number, payload = self._sub.recv_multipart()
            found = int.from_bytes(number, "big")
            if self.deaf(found):
                continue
            if found > self.next:
                self.ask()
            self.live += found >= self.next
            self._take(found, payload)
        return heard

    def ask(self) -> None:
        """Replay from the next one on."""
        for number, payload in self.replay(self.next):
            self.replayed += number >= self.next
            self._take(number, payload)

    def replay(self, start: int) -> list[tuple[int, bytes]]:
        self._dealer.send_multipart([b"", start.to_bytes(8, "big")])
        return self.answer()

    def answer(self) -> list[tuple[int, bytes]]:
        found = []
        while True:
            assert self._dealer.poll(SECONDS * 1000)
            empty, topic, number, payload = self._dealer.recv_multipart()
            assert empty == b""
            if int.from_bytes(number, "big") == END:
                assert (topic, payload) == (b"", b"")
                return found
            found.append((int.from_bytes(number, "big"), payload))

    def send(self, *frames: bytes) -> None:
        self._dealer.send_multipart(frames)

    def _take(self, number: int, payload: bytes) -> None:
        if number < self.next:
            return
        self.lost = self.lost or number > self.next
        self.next = number + 1
        batch = self._decoder.decode(payload)
        self.ranks.add(getattr(batch, "data_parallel_rank", None))
        events = [event_of(event) for event in batch.events]
        if self.lost and Cleared() in events:
            events = events[events.index(Cleared()) :]
            self.lost = False
        if not self.lost:
            self.consumer.apply(events)

    def close(self) -> None:
        self._context.destroy(linger=0)
