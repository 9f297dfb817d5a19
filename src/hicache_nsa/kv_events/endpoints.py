"""Addresses of ZeroMQ sockets, by the rules of both engines."""

from __future__ import annotations

import re

_TCP = re.compile(r"(tcp://.+):(\d+|\*)")


def endpoint_of_rank(endpoint: str, dp_rank: int, name: str = "endpoint") -> str:
    """``endpoint`` of data parallel rank ``dp_rank``: a TCP port counts up from the first rank's.

    Ports 0 and ``*`` (any free one) stay; a path (``ipc://``) gets ``_dp1`` ... behind it.

    Raises:
        TypeError, ValueError: no TCP address with a port, no ``ipc://`` path, or a port too high.
    """
    if not isinstance(endpoint, str):
        raise TypeError(f"{name} must be a string, got {type(endpoint).__name__}")
    if endpoint.startswith("ipc://") and endpoint != "ipc://":
        return f"{endpoint}_dp{dp_rank}" if dp_rank else endpoint
    found = _TCP.fullmatch(endpoint)
    if found is None:
        raise ValueError(
            f"{name}={endpoint!r} must be tcp://ADDRESS:PORT (tcp://*:5557) or ipc://PATH"
        )
    host, port = found[1], found[2]
    if port in ("0", "*"):
        return endpoint
    if int(port) + dp_rank > 65_535:
        raise ValueError(f"{name}={endpoint!r}: port {port} + dp_rank {dp_rank} is above 65535")
    return f"{host}:{int(port) + dp_rank}"


def binds(endpoint: str) -> bool:
    """Whether a publisher binds there (``*``, ``0.0.0.0``, ``::``, ``ipc://``) or connects."""
    return any(part in endpoint for part in ("*", "0.0.0.0", "::")) or endpoint.startswith("ipc://")
