"""The sockets of a publisher. Only one thread at a time may use them."""

from __future__ import annotations

import logging
from typing import TypeAlias

import zmq

from hicache_nsa.errors import HiCacheError
from hicache_nsa.kv_events.endpoints import binds
from hicache_nsa.kv_events.kept_batches import KeptBatches

_log = logging.getLogger("hicache_nsa.kv_events")
END = (-1).to_bytes(8, "big", signed=True)
"""The sequence number of the message that ends a replay."""
LINGER_MS = 1000
"""How long the last messages may take to leave at the end."""
_Socket: TypeAlias = "zmq.Socket[bytes]"


class Sender:
    """A PUB socket for batches and, where asked for, a ROUTER socket that answers for past ones.

    A batch is ``(topic, number, payload)``, the number 8 bytes, big-endian, from 0 on. A request on
    the ROUTER socket is ``(b"", number)``; the answer is each batch from that number on that is
    still kept, as ``(b"", topic, number, payload)``, then ``(b"", b"", END, b"")``.

    Raises:
        HiCacheError: an address that can't be used; what the system says is in the message.
    """

    def __init__(
        self, endpoint: str, replay_endpoint: str | None, topic: str, hwm: int, replay_bytes: int
    ) -> None:
        self._topic = topic.encode()
        self._kept = KeptBatches(replay_bytes if replay_endpoint is not None else 0)
        self.published = 0
        self._anew = -1  # the last batch that began anew
        self._context = zmq.Context()
        try:
            self._pub = self._socket(zmq.PUB, endpoint, "endpoint", hwm, binds(endpoint))
            self._router = None
            if replay_endpoint is not None:
                # No limit: beyond one, parts of an answer would be dropped without a word.
                self._router = self._socket(zmq.ROUTER, replay_endpoint, "replay_endpoint", 0, True)
        except BaseException:
            self._context.destroy(linger=0)
            raise
        self.endpoint = _address(self._pub)
        self.replay_endpoint = None if self._router is None else _address(self._router)

    def _socket(self, kind: int, endpoint: str, name: str, hwm: int, bind: bool) -> _Socket:
        socket: _Socket = self._context.socket(kind)
        socket.set_hwm(hwm)
        socket.setsockopt(zmq.IPV6, "[" in endpoint or "::" in endpoint)
        try:
            if bind:
                socket.bind(endpoint)
            else:
                socket.connect(endpoint)
        except zmq.ZMQError as error:
            raise HiCacheError(
                f"{name}={endpoint!r} can't be used: {error.strerror}; give another address or "
                f"end what uses this one"
            ) from error
        return socket

    def wait(self, wakened: int, milliseconds: int) -> bool:
        """Until file ``wakened`` has something, somebody asks for past batches, or time is over.

        Returns whether somebody asked.
        """
        poller = zmq.Poller()
        poller.register(wakened, zmq.POLLIN)
        if self._router is not None:
            poller.register(self._router, zmq.POLLIN)
        ready = dict(poller.poll(milliseconds))
        return self._router is not None and self._router in ready

    def publish(self, payload: bytes, anew: bool = False) -> None:
        """Send the next batch. Never waits: a subscriber that is too slow misses it.

        anew: it begins with ``Cleared``, so that nothing before it has to be known.
        """
        number = self.published
        self._pub.send_multipart((self._topic, number.to_bytes(8, "big"), payload))
        self._kept.add(number, payload)
        if anew:
            self._anew = number
        self.published += 1

    def answer(self) -> bool:
        """Answer one request for past batches.

        Returns whether that was enough: False where some of them are no longer kept, and none of
        those that are begins anew.
        """
        assert self._router is not None
        client, *request = self._router.recv_multipart()
        wanted = _number_of(request)
        if wanted is None:
            _log.warning(
                "a replay request must be an empty frame and 8 bytes, got frames of %s bytes",
                [len(frame) for frame in request],
            )
            wanted = self.published
        for number, payload in self._kept.since(wanted):
            self._router.send_multipart(
                (client, b"", self._topic, number.to_bytes(8, "big"), payload)
            )
        self._router.send_multipart((client, b"", b"", END, b""))
        first = self._kept.first(self.published)
        return wanted >= first or self._anew >= first

    def close(self) -> None:
        """Send what is still on its way, for at most a second, and close the sockets."""
        self._context.destroy(linger=LINGER_MS)


def _number_of(request: list[bytes]) -> int | None:
    if len(request) != 2 or request[0] or len(request[1]) != 8:
        return None
    return int.from_bytes(request[1], "big")


def _address(socket: _Socket) -> str:
    """Where it is bound or connected, with the port that the system chose."""
    address: str = socket.getsockopt_string(zmq.LAST_ENDPOINT)
    return address
