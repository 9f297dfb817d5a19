"""The linker without SGLang: what it does with keys, slots and copies.

``HiCacheLinker`` adds SGLang's base class and the checks at start. Nothing here imports SGLang, so
that it can be tested without it, and with tensors on a GPU.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from hicache_nsa.errors import HiCacheError
from hicache_nsa.integrations.linking import live
from hicache_nsa.integrations.linking.chains import Chains
from hicache_nsa.integrations.linking.counters import LinkerStats
from hicache_nsa.integrations.linking.device_buffers import DeviceBuffers
from hicache_nsa.integrations.linking.fences import OffloadFences
from hicache_nsa.integrations.linking.layer_counter import LayerCounter
from hicache_nsa.integrations.linking.leases import Leases
from hicache_nsa.integrations.linking.loads import Loads
from hicache_nsa.integrations.linking.offloads import Offloads
from hicache_nsa.integrations.linking.options import LinkerOptions
from hicache_nsa.page_index import PageIndex
from hicache_nsa.pools import DevicePool, HostPool
from hicache_nsa.transfer import TransferEngine

KV = "kv"

log = logging.getLogger("hicache_nsa.linking")


class LinkerCore:
    """The methods of SGLang's ``UnifiedCacheLinker`` over a ``PageIndex``, a ``HostPool`` and a
    ``TransferEngine``. Called by SGLang's scheduler thread only, like every linker.

    A page is there for a lookup once its bytes have landed in host memory. Host memory is this
    rank's own; ranks agree on a hit by intersecting what each has found.

    After ``close()`` nothing is found and nothing is under way: ``lookup`` and all that asks how
    copies are going answer so, as they do for a linker that never stored anything. ``load`` and
    ``offload`` raise ``HiCacheError``: SGLang then gives back what it has allocated and locked for
    the call, and does not go on as if this rank had taken part.
    """

    forward_stream: Any = None
    layer_done_counter: LayerCounter
    pools: dict[Any, object]

    def open(self, buffers: DeviceBuffers, options: LinkerOptions, keep_on_flush: bool) -> None:
        """Make pools and engine. keep_on_flush: whether ``reset()`` keeps the host pages.

        Raises:
            ValueError, HiCacheError: the pools don't fit the machine; nothing is left behind.
        """
        self.options = options
        self.keep_on_flush = keep_on_flush
        self.page_size = buffers.format.page_size
        host = HostPool(
            buffers.format,
            options.host_pages,
            options.host_size,
            options.layout,
            **options.memory,
        )
        device = DevicePool(
            buffers.format, buffers.tensors, buffers.pages, buffers.device, reserved=(0,)
        )
        self.engine = TransferEngine(
            device, host, options.io_backend, pin_memory=options.pin_memory, **options.engine
        )
        self.host_pool = host
        self.index = PageIndex(host.num_pages, options.eviction_policy)
        self._chains = Chains(host.num_pages)
        self._leases = Leases(self.index, options.lease_seconds)
        self._loads = Loads(self.index, self._leases, self.engine, self.page_size)
        fences = OffloadFences(self.engine, self.record_offload_ready, self.forward_stream)
        self._offloads = Offloads(self.index, self._chains, self.engine, self.page_size, fences)
        self.layer_done_counter = LayerCounter(self._loads, buffers.format.num_layers)
        self.pools = {KV: device}
        self.resets = 0
        self._above: tuple[str, str | None] = ("", None)
        self._lookups = 0
        self._hit_pages = 0
        self._invalidations = 0
        self._suspended = False
        self._clean = True  # nothing has come to the device since the last flush
        self._closed = False
        live.add(self)

    def record_offload_ready(self) -> Sequence[Any]:
        """SGLang's base class has the real one."""
        return ()

    # ---- match ----

    def above(self, rid: str, key: str | None) -> None:
        """What ends the part of ``rid``'s prompt that is on the device, before its ``lookup``.

        SGLang doesn't say; our hook on its match does. It counts as used, though nobody asks for
        it, and what is stored below it keeps it from eviction.

        The first sign of a request: for a prompt of less than a page there is no ``lookup``.
        """
        if self._closed:
            return
        self._clean = False
        self._above = (rid, key)
        if key is not None:
            self.index.touch([key])

    def lookup(self, rid: str, transfers: Sequence[Any], **_: Any) -> list[int]:
        """Every restorable length, in pages of the uncached tail; keeps the longest for ``rid``.

        Empty after ``close()``: a miss, on all ranks.
        """
        if self._closed:
            return []
        keys = _kv_keys(transfers)
        found = 0 if self._suspended or not keys else self.index.prefix(keys)  # refuses bad keys
        self._lookups += 1
        self._clean = False
        self._leases.expire()
        least = max(1, -(-self.options.load_back_threshold // self.page_size))
        if found < least:
            found = 0
        self._leases.grant(rid, keys[:found])
        about, parent = self._above
        self._chains.note(keys, parent if about == rid else None)
        self._hit_pages += found
        return list(range(least, found + 1))

    # ---- host to device ----

    def load(self, rid: str, transfers: Sequence[Any], **_: Any) -> bool:
        """Queue a load into the given slots; True whatever this rank still has.

        Raises:
            HiCacheError: the linker is closed. ValueError: bad slots, or one queued for ``rid``.
        """
        self._require_open("load")
        transfer = _kv(transfers)
        if transfer is None or not transfer.keys:
            return False
        self._loads.queue(rid, list(transfer.keys), transfer.device_indices)
        return True

    def start_layer_wise_loading(self) -> int:
        """Start what is queued, as one copy; the index for the layer counter, -1 for nothing."""
        return self._loads.start()

    def finish_layer_wise_loading(self, counter_index: int) -> bool:
        """Wait until the batch writes no more; whether every layer landed."""
        return self._loads.finish(counter_index)

    def cancel_queued_load(self, rid: str) -> bool:
        """Drop a load that has not been started."""
        return self._loads.cancel(rid)

    # ---- device to host ----

    def offload(self, transfers: Sequence[Any], session_id: str | None = None, **_: Any) -> bool:
        """Queue a node's pages; True for any page at all, so that ranks' queues stay the same.

        Raises:
            HiCacheError: the linker is closed. ValueError: bad slots, or a key twice.
        """
        self._require_open("offload")
        transfer = _kv(transfers)
        if transfer is None or not transfer.keys:
            return False
        self._clean = False
        self._leases.expire()
        self._loads.collect()
        if self._suspended:
            self._offloads.add_failed(list(transfer.keys))
        else:
            self._offloads.add(list(transfer.keys), transfer.device_indices)
        return True

    def num_completed_offloads(self) -> int:
        """Offloads that have ended, up to the first that has not."""
        return self._offloads.completed()

    def pop_completed_offload(self) -> bool:
        """Whether the oldest of them ended well."""
        return self._offloads.pop()

    # ---- flush, weights, end ----

    def quiesce(self) -> None:
        """Wait for every copy in flight; queued loads and results stay."""
        self._offloads.wait()
        self._loads.wait()

    def reset(self) -> None:
        """Flush: wait for copies, drop queues and leases; host pages stay if ``keep_on_flush``."""
        if self._closed:
            return
        self._quiet()
        self.resets += 1
        self._suspended = False
        self._clean = True
        kept = len(self.index)
        if not self.keep_on_flush:
            log.info("flushed; %d host pages dropped", self.index.reset())
        else:
            log.info("flushed; %d host pages kept", kept)

    def invalidate(self) -> None:
        """The weights have changed: drop every host page.

        If there was a request since the last flush, the device may hold KV of the old weights, and
        so will be what is computed on it: then nothing is stored and nothing is found until the
        next ``reset()``.
        """
        if self._closed:
            return
        self._invalidations += 1
        self._suspended = not self._clean
        self._leases.end_all()
        self._loads.fail_queued("the weights have changed")
        dropped = self.index.reset()  # first, so that nothing is found again whatever comes below
        self.quiesce()
        log.info(
            "the weights have changed: %d host pages dropped%s",
            dropped,
            "; suspended until the next flush" if self._suspended else "",
        )

    def close(self) -> None:
        """Wait for copies and release the memory. Idempotent."""
        if self._closed:
            return
        self._closed = True
        live.remove(self)
        self._quiet()
        self.engine.close()
        self.host_pool.close()
        self.engine.device_pool.close()

    def _quiet(self) -> None:
        self._loads.quiesce()
        self._offloads.quiesce()
        self._leases.end_all()
        self.layer_done_counter.reset()

    def _require_open(self, call: str) -> None:
        if self._closed:
            raise HiCacheError(
                f"{call} after close() of this linker: its host pages are gone; make a new one"
            )

    # ---- what it did ----

    def stats(self) -> LinkerStats:
        """Counters since the start."""
        return LinkerStats(
            lookups=self._lookups,
            hit_pages=self._hit_pages,
            loaded_pages=self._loads.loaded_pages,
            failed_loads=self._loads.failed_batches,
            stored_pages=self._offloads.stored_pages,
            failed_offloads=self._offloads.failed,
            refused_offloads=self._offloads.refused,
            leases=len(self._leases),
            resets=self.resets,
            invalidations=self._invalidations,
            suspended=self._suspended,
            host=self.index.stats(),
        )

    def check(self) -> None:
        """Raise ``InvariantError`` if a part's books don't balance."""
        self.index.check()
        self.host_pool.check()
        self.engine.check()


def _kv(transfers: Sequence[Any]) -> Any:
    """The transfer of the KV pool; None if there is none.

    Raises:
        ValueError: another pool has pages in it.
    """
    found = None
    for transfer in transfers:
        if str(transfer.name) == KV:
            found = transfer
        elif transfer.keys:
            raise ValueError(f"a transfer of pool {transfer.name!s}; HiCacheLinker has {KV!r} only")
    return found


def _kv_keys(transfers: Sequence[Any]) -> list[str]:
    transfer = _kv(transfers)
    return [] if transfer is None or not transfer.keys else list(transfer.keys)
