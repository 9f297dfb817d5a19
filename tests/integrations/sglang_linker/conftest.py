"""Servers for the scenarios, on the CPU, without SGLang."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("torch", reason="the linker's pools are torch tensors")

from kv_pools import DEVICE_PAGES, HOST_PAGES, DSATokenToKVPool
from mirror import Mirror
from stand_in import StandInLinker, StandInServer


@pytest.fixture
def make_server() -> Iterator[Callable[..., StandInServer]]:
    """``make_server(pool, **config)``; closed at the end."""
    servers: list[StandInServer] = []

    def make(pool: Any = None, *, drafts: tuple[Any, ...] = (), **config: Any) -> StandInServer:
        pool = pool or DSATokenToKVPool(DEVICE_PAGES)
        more = {n: config.pop(n) for n in ("forward_stream", "keep_on_flush") if n in config}
        config = {"host_pages": HOST_PAGES, "workers": 1, **config}
        linker = StandInLinker(pool, config, drafts=drafts, **more)
        named = {f"draft{i}_": draft for i, draft in enumerate(drafts)}
        server = StandInServer(linker, pool, Mirror(**{"": pool, **named}))
        servers.append(server)
        return server

    yield make
    for server in servers:
        server.close()
