"""Servers for the scenarios, on the CPU: with SGLang where it is installed, and without it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

STUBS = Path(__file__).parent / "stubs"

if find_spec("sglang") is not None and find_spec("torchvision") is None:
    sys.path.append(str(STUBS))  # SGLang imports it, and nothing here uses it
if find_spec("torch") is None:
    collect_ignore_glob = ["test_*"]  # the linker's pools are torch tensors
else:
    from kv_pools import DEVICE_PAGES, HOST_PAGES, DSATokenToKVPool
    from page_mirror import Mirror
    from stand_in_server import StandInLinker, StandInServer


@pytest.fixture
def make_server() -> Iterator[Callable[..., Any]]:
    """``make_server(pool, drafts=(), **config)``: a stand-in for SGLang; closed at the end."""
    servers: list[Any] = []

    def make(pool: Any = None, *, drafts: tuple[Any, ...] = (), **config: Any) -> Any:
        pool = pool or DSATokenToKVPool(DEVICE_PAGES)
        more = {n: config.pop(n) for n in ("forward_stream", "keep_on_flush") if n in config}
        config = {"host_pages": HOST_PAGES, "workers": 1, **config}
        linker = StandInLinker(pool, config, drafts=drafts, **more)
        named = {f"draft{i}_": draft for i, draft in enumerate(drafts)}
        servers.append(StandInServer(linker, pool, Mirror(**{"": pool, **named})))
        return servers[-1]

    yield make
    for server in servers:
        server.close()


@pytest.fixture
def one_rank() -> Iterator[None]:
    """What a server of SGLang publishes at start, and its pools and its cache ask for."""
    pytest.importorskip("sglang.srt", reason="SGLang isn't installed; `make test-sglang` has it")
    from sglang.srt.runtime_context import get_context, get_parallel

    with (
        get_context().override_server_args(page_size=64),
        get_parallel().override(attn_dcp_size=1, attn_dcp_rank=0),
    ):
        yield


@pytest.fixture
def make_sglang_server(one_rank: None) -> Iterator[Callable[..., Any]]:
    """``make_sglang_server(pool, core="python", **config)``: SGLang's cache; closed at the end."""
    from sglang_pools import dsa_pool
    from sglang_server import SglangServer

    servers: list[Any] = []

    def make(pool: Any = None, core: str = "python", **config: Any) -> Any:
        pool = pool or dsa_pool()
        config = {"host_pages": HOST_PAGES, "workers": 1, "keep_on_flush": True, **config}
        servers.append(SglangServer(pool, Mirror(**{"": pool}), config, core))
        return servers[-1]

    yield make
    for server in servers:
        server.close()
