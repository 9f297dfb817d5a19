"""What every byte of both pools must be after any number of copies, kept up by the test itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gpu_pools import Pools, torch

import hicache_nsa as hc
from hicache_nsa import testing

SECONDS = 60
Tier = dict[tuple[str, int], np.ndarray]  # by (buffer, layer): uint8 [pages, page bytes]


class Mirror:
    """Fills both pools with random bytes, submits copies and does the same to bytes of its own.

    It goes by the order of submission: copies of one direction keep it, and so do copies of
    opposite directions that share a page; for others the order makes no difference.
    """

    def __init__(self, pools: Pools, seed: int = 0) -> None:
        self.pools = pools
        rng = np.random.default_rng(seed)
        self.host = self._random(rng, pools.host.num_pages)
        self.device = self._random(rng, pools.device.num_pages)
        self._tickets: list[tuple[hc.Ticket, bool]] = []
        for (name, layer), tensor in self._tensors().items():
            data = torch.from_numpy(self.device[name, layer])
            tensor.copy_(data.reshape(tensor.shape))
        for (name, layer), data in self.host.items():
            for page, row in enumerate(data):
                pools.host.page_view(name, layer, page)[:] = row
        torch.cuda.synchronize()

    def submit(
        self,
        direction: str,
        host_pages: Sequence[int] | np.ndarray,
        device_pages: Sequence[int] | np.ndarray,
        layers: Sequence[int] | None = None,
        *,
        fails_after: int | None = None,
        **hints: Any,
    ) -> hc.Ticket:
        """Submit a copy; fails_after: it fails after so many pages, which are copied whole."""
        host = np.ascontiguousarray(host_pages, dtype=np.int64)
        device = np.ascontiguousarray(device_pages, dtype=np.int64)
        if fails_after is not None:
            testing.fail_next(self.pools.engine, direction, fails_after)
        ticket = self.pools.engine.submit(direction, host, device, layers, **hints)
        self._tickets.append((ticket, fails_after is not None))
        count = len(host) if fails_after is None else fails_after
        for key in self.host:
            if layers is not None and key[1] not in layers:
                continue
            if direction == "h2d":
                self.device[key][device[:count]] = self.host[key][host[:count]]
            else:
                self.host[key][host[:count]] = self.device[key][device[:count]]
        return ticket

    def settle(self) -> None:
        """Wait for all copies; then every byte of both pools, and between their pages, is right."""
        for ticket, fails in self._tickets:
            assert ticket.wait_end(SECONDS), "a copy did not end"
            assert (ticket.error is not None) == fails, ticket.error
        self._tickets.clear()
        for (name, layer), tensor in self._tensors().items():
            wanted = self.device[name, layer]
            got = tensor.cpu().numpy().reshape(wanted.shape)
            self._compare("device", name, layer, got, wanted)
        for (name, layer), wanted in self.host.items():
            views = [self.pools.host.page_view(name, layer, p) for p in range(len(wanted))]
            self._compare("host", name, layer, np.stack(views), wanted)
        assert self.pools.outside_is_guard(), "bytes between device pages were written"

    def _random(self, rng: np.random.Generator, pages: int) -> Tier:
        return {
            (b.name, layer): rng.integers(0, 256, (pages, b.page_bytes), np.uint8)
            for b in self.pools.format.buffers
            for layer in b.layers
        }

    def _tensors(self) -> dict[tuple[str, int], Any]:
        return {
            (b.name, layer): tensor
            for b in self.pools.format.buffers
            for layer, tensor in zip(b.layers, self.pools.buffers[b.name], strict=True)
        }

    @staticmethod
    def _compare(tier: str, name: str, layer: int, got: np.ndarray, wanted: np.ndarray) -> None:
        wrong = np.flatnonzero((got != wanted).any(axis=1))
        assert not wrong.size, f"{tier}, {name} of layer {layer}: pages {wrong.tolist()} are wrong"
