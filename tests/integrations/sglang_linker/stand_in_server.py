"""A server that drives a linker as SGLang's scheduler and radix cache do, without SGLang.

Its tree is a dict from page hash to device page, one node a request's new pages. For machines
without SGLang: the calls, their order and their arguments are those of its wrapper.
"""

from __future__ import annotations

import hashlib
from collections import deque
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

import torch
from page_mirror import Mirror
from served_request import Served, WrongBytes

from hicache_nsa.integrations.linking.core import LinkerCore
from hicache_nsa.integrations.linking.device_buffers import device_buffers
from hicache_nsa.integrations.linking.options import linker_options


def page_hashes(tokens: list[int], page_size: int) -> list[str]:
    """Chained hashes of the whole pages of ``tokens``, hex."""
    hashes: list[str] = []
    before = b""
    for start in range(0, len(tokens) // page_size * page_size, page_size):
        page = repr(tokens[start : start + page_size]).encode()
        before = hashlib.sha256(before + page).digest()
        hashes.append(before.hex())
    return hashes


class StandInLinker(LinkerCore):
    """A linker with the events of SGLang's base class: current stream and forward stream."""

    def __init__(self, pool: Any, config: dict[str, Any], **more: Any) -> None:
        self.forward_stream = more.pop("forward_stream", None)
        keep = more.pop("keep_on_flush", True)
        drafts = more.pop("drafts", ())
        options = linker_options(config)
        self.open(device_buffers(pool, pool.page_size, drafts), options, keep)

    def record_offload_ready(self) -> list[Any]:
        events = []
        for stream in (torch.cuda.current_stream(), self.forward_stream):
            if stream is not None:
                events.append(torch.cuda.Event())
                events[-1].record(stream)
        return events


class StandInServer:
    """Serves requests over ``pool``, with ``linker`` behind it. Page 0 is never handed out."""

    def __init__(self, linker: LinkerCore, pool: Any, mirror: Mirror) -> None:
        self.linker = linker
        self.mirror = mirror
        self.page_size = pool.page_size
        self.layers = linker.layer_done_counter.num_layers
        self.device = next(iter(mirror.buffers.values()))[0].device
        self.tree: dict[str, int] = {}
        self.free = deque(range(1, mirror.pages))
        self.offloading: deque[list[str]] = deque()
        self.offloads: list[bool] = []
        self.stored: set[str] = set()
        self.served = 0
        self.forward_stream = linker.forward_stream

    # ---- a request ----

    def serve(self, tokens: list[int], rid: str | None = None) -> Served:
        """Match, load, compute, insert and offload; compares what was loaded, layer by layer."""
        keys = page_hashes(tokens, self.page_size)
        rid = rid or f"request-{self.served}"
        self.served += 1
        on_device = 0
        while on_device < len(keys) and keys[on_device] in self.tree:
            on_device += 1
        tail = keys[on_device:]
        self.linker.above(rid, keys[on_device - 1] if on_device else None)
        lengths = self.linker.lookup(rid, [_kv(tail)]) if tail else []
        host = max(lengths, default=0)
        pages = self._allocate(len(tail), keep=set(keys))
        if host and not self.linker.load(rid, [_kv(tail[:host], self._slots(pages[:host]))]):
            raise AssertionError("a load was refused")
        index = self.linker.start_layer_wise_loading()
        assert (index >= 0) == (host > 0)
        with self._on_forward_stream():
            landed = self._forward(index, pages, tail, host)
        if not landed:
            self.free.extend(pages)
            return Served(on_device, 0, 0, aborted=True)
        self.tree.update(zip(tail, pages, strict=True))
        self._offload(tail, pages)
        return Served(on_device, host, len(tail) - host)

    def _forward(self, index: int, pages: list[int], tail: list[str], host: int) -> bool:
        loaded = pages[:host]
        for page, key in zip(loaded, tail, strict=False):
            self.mirror.expect(page, key)
        counter = self.linker.layer_done_counter
        counter.set_consumer(index)
        wrong: list[str] = []
        for layer in range(self.layers):
            counter.wait_until(layer)
            wrong += self.mirror.wrong_bytes(loaded, [layer])
        for page, key in zip(pages[host:], tail[host:], strict=True):
            self.mirror.write(page, key)
        landed = self.linker.finish_layer_wise_loading(index)
        counter.set_consumer(-1)
        if not landed:
            self.mirror.poison(loaded)
        elif wrong:
            raise WrongBytes(wrong[:5])
        return landed

    def _on_forward_stream(self) -> AbstractContextManager[Any]:
        """SGLang computes on a stream of its own, behind what its scheduler has queued."""
        if self.device.type != "cuda" or self.forward_stream is None:
            return nullcontext()
        self.forward_stream.wait_stream(torch.cuda.current_stream())
        return torch.cuda.stream(self.forward_stream)

    def _offload(self, keys: list[str], pages: list[int]) -> None:
        if keys and self.linker.offload([_kv(keys, self._slots(pages))], session_id=None):
            self.offloading.append(keys)

    def settle(self, timeout_rounds: int = 20_000) -> list[bool]:
        """Take in completed offloads until all are; their results, first in, first out."""
        results: list[bool] = []
        for _ in range(timeout_rounds):
            for _ in range(self.linker.num_completed_offloads()):
                results.append(self.linker.pop_completed_offload())
                done = self.offloading.popleft()
                if results[-1]:
                    self.stored.update(done)
            if not self.offloading:
                self.offloads += results
                return results
            self.linker.quiesce()
        raise AssertionError(f"{len(self.offloading)} offloads never completed")

    # ---- the device ----

    def flush(self) -> None:
        """SGLang's ``/flush_cache``: the linker's reset, then an empty tree."""
        self.linker.reset()
        self.offloading.clear()
        self.tree.clear()
        self.free = deque(range(1, self.mirror.pages))
        self.mirror.poison()

    def drop_device(self) -> None:
        """The radix cache evicts everything; the linker isn't told."""
        self.settle()
        for page in self.tree.values():
            self.free.append(page)
            self.mirror.poison([page])
        self.tree.clear()

    def check(self) -> None:
        """Every byte on the device, and the linker's books."""
        self.mirror.check()
        self.linker.check()

    def close(self) -> None:
        self.linker.close()

    def _allocate(self, count: int, keep: set[str]) -> list[int]:
        if count > len(self.free):
            self.settle()
            for key in [k for k in self.tree if k not in keep][: count - len(self.free)]:
                self.free.append(self.tree.pop(key))
        return [self.free.popleft() for _ in range(count)]

    def _slots(self, pages: list[int]) -> torch.Tensor:
        first = torch.tensor(pages, dtype=torch.int64).reshape(-1, 1) * self.page_size
        return (first + torch.arange(self.page_size)).reshape(-1).to(self.device)


def _kv(keys: list[str], slots: torch.Tensor | None = None) -> Any:
    return SimpleNamespace(name="kv", keys=list(keys), device_indices=slots)
