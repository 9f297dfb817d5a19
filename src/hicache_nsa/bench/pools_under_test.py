"""Device memory in the arrangement under test, with guard bytes around every part of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hicache_nsa.bench.machine import Machine
from hicache_nsa.formats import PoolFormat
from hicache_nsa.pools import DevicePool
from hicache_nsa.sizes import format_size

DEVICE_POISON = 0x5C
GUARD_BYTES = 4096  # keeps the alignment of what comes behind


class DeviceMemory:
    """A device pool of ``pages`` pages, in memory that begins and ends with guards.

    packed: [page][layer][buffer], a page's record is contiguous. Otherwise one tensor
    [layers, pages, page_bytes] a buffer, with a guard between two of them.
    """

    def __init__(self, machine: Machine, fmt: PoolFormat, pages: int, packed: bool) -> None:
        parts = 1 if packed else len(fmt.buffers)
        nbytes = pages * fmt.page_bytes + (parts + 1) * GUARD_BYTES
        self.nbytes = nbytes
        self.bytes = machine.memory(nbytes)
        self.bytes[:] = DEVICE_POISON
        self._guards = [self.bytes[:GUARD_BYTES]]
        self.buffers = self._packed(fmt, pages) if packed else self._by_buffer(fmt, pages)
        machine.synchronize()
        self.pool = DevicePool(fmt, self.buffers, device=machine.device)

    def __str__(self) -> str:
        return f"{self.pool.num_pages:,} device pages ({format_size(self.nbytes)})"

    def fill(self, machine: Machine, seed: int) -> None:
        """Random bytes everywhere but in the guards."""
        machine.randomise(self.bytes, seed)
        for guard in self._guards:
            guard[:] = DEVICE_POISON

    def guards_hold(self) -> bool:
        """Whether nothing was written into the guards."""
        return all(bool((guard == DEVICE_POISON).all()) for guard in self._guards)

    def _packed(self, fmt: PoolFormat, pages: int) -> Mapping[str, Sequence[Any]]:
        records = self._next(GUARD_BYTES, pages * fmt.page_bytes)
        records = records.reshape(pages, fmt.page_bytes)
        buffers: dict[str, list[Any]] = {buffer.name: [] for buffer in fmt.buffers}
        start = 0
        for layer in range(fmt.num_layers):
            for buffer in fmt.buffers:
                if layer in buffer.layers:
                    end = start + buffer.page_bytes
                    buffers[buffer.name].append(records[:, start:end])
                    start = end
        return buffers

    def _by_buffer(self, fmt: PoolFormat, pages: int) -> Mapping[str, Sequence[Any]]:
        buffers = {}
        start = GUARD_BYTES
        for buffer in fmt.buffers:
            shape = (len(buffer.layers), pages, buffer.page_bytes)
            nbytes = shape[0] * shape[1] * shape[2]
            tensor = self._next(start, nbytes).reshape(*shape)
            buffers[buffer.name] = [tensor[layer] for layer in range(shape[0])]
            start += nbytes + GUARD_BYTES
        return buffers

    def _next(self, start: int, nbytes: int) -> Any:
        """The bytes from ``start`` on; those behind them are a guard."""
        end = start + nbytes
        self._guards.append(self.bytes[end : end + GUARD_BYTES])
        return self.bytes[start:end]
