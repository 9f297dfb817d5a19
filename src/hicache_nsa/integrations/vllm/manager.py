"""The scheduler's side: which blocks are on host, in vLLM's words. No memory, no torch."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from vllm.v1.kv_offload.base import (
    LookupResult,
    Medium,
    OffloadingEvent,
    OffloadingManager,
    OffloadKey,
    PrepareStoreOutput,
    ReqContext,
    RequestOffloadingContext,
)
from vllm.v1.metrics.cache_hit_source import CacheHitSource

from hicache_nsa.integrations.offloading.host_chunks import HostChunks
from hicache_nsa.integrations.vllm.chunk_spec import HostChunkSpec
from hicache_nsa.integrations.vllm.metrics import take_stats
from hicache_nsa.integrations.vllm.tail import parent_of, remember

_RESULTS = (LookupResult.MISS, LookupResult.HIT_PENDING, LookupResult.HIT)


class HiCacheOffloadingManager(OffloadingManager):
    """vLLM's calls, one to one on ``HostChunks``. Entered by the scheduler's thread only.

    A request takes its hits by ``lookup`` and ``prepare_load`` within one step; what a lookup found
    stays until the step ends. Stores are taken whole or refused; evictions happen with the store
    that needs them or not at all.
    """

    def __init__(
        self,
        host: HostChunks,
        tokens_per_chunk: int,
        info: dict[str, str | int],
        enable_events: bool = False,
    ) -> None:
        self._host = host
        self._tokens_per_chunk = tokens_per_chunk
        self._info = info
        self._reported = False
        self._events: list[OffloadingEvent] | None = [] if enable_events else None
        self._announced: set[OffloadKey] = set()  # as stored, and not as removed since
        self._places: dict[OffloadKey, int] = {}  # of keys being stored: parents before children
        self._prepared = 0

    def on_new_request(self, req_context: ReqContext) -> RequestOffloadingContext:
        """vLLM's default: what is computed is offered as it comes, hits are not offered again."""
        return RequestOffloadingContext()

    def lookup(self, key: OffloadKey, req_context: ReqContext) -> LookupResult:
        """HIT, HIT_PENDING while it is being stored, or MISS."""
        return _RESULTS[self._host.lookup(key)]

    def get_load_source(self, key: OffloadKey, req_context: ReqContext) -> CacheHitSource:
        """All hits are the host's."""
        return CacheHitSource.HOST

    def prepare_load(self, keys: Collection[OffloadKey], req_context: ReqContext) -> HostChunkSpec:
        """Pin ``keys``, all of which were hits in this step.

        Raises:
            KeyError: one of them is not on host.
        """
        chain = tuple(keys)
        chunks = self._host.load(chain)
        remember(chain, req_context)
        return HostChunkSpec(chunks)

    def complete_load(self, keys: Collection[OffloadKey], req_context: ReqContext) -> None:
        """Every worker has loaded them."""
        self._host.loaded(keys)

    def touch(self, keys: Collection[OffloadKey], req_context: ReqContext) -> None:
        """They are in use on the device."""
        self._host.touch(tuple(keys))

    def prepare_store(
        self, keys: Collection[OffloadKey], req_context: ReqContext
    ) -> PrepareStoreOutput | None:
        """Room for all of ``keys`` that are not on host yet, or None."""
        chain = tuple(keys)
        store = self._host.store(chain, parent_of(chain, req_context, self._tokens_per_chunk))
        if store is None:
            return None
        remember(chain, req_context)
        self._announce(store.evicted, removed=True)
        if self._events is not None:
            for key in store.keys:
                self._prepared += 1
                self._places[key] = self._prepared
        return PrepareStoreOutput(
            keys_to_store=store.keys,
            store_spec=HostChunkSpec(store.chunks),
            evicted_keys=store.evicted,
        )

    def complete_store(
        self, keys: Collection[OffloadKey], req_context: ReqContext, success: bool = True
    ) -> None:
        """Every worker has stored them (or not). vLLM has them in a set: in no order."""
        dropped = self._host.stored(keys, success)
        in_order = sorted(keys, key=lambda key: self._places.pop(key, 0))
        self._announce([key for key in in_order if key not in dropped], removed=False)
        self._announce([key for key in dropped if key not in keys], removed=True)

    def on_schedule_end(self, context: Any) -> None:
        """The step's lookups keep nothing any more."""
        self._host.end_step()

    def reset_cache(self) -> None:
        """Empty. vLLM has the workers finish what is in flight before they get anything new."""
        self._host.reset()
        self._places.clear()
        self._announce(list(self._announced), removed=True)

    def take_events(self) -> Iterable[OffloadingEvent]:
        """What was stored and removed since the last call; nothing unless events are enabled."""
        events = self._events
        if events is not None:
            self._events = []
        return events or ()

    def get_stats(self) -> Any:
        """Counters since the last call, and gauges."""
        zeros, self._reported = not self._reported, True
        return take_stats(self._host, zeros)

    def config_info(self) -> Sequence[dict[str, str | int]]:
        """The fixed facts of the tier, one series (vLLM 0.33)."""
        return [self._info]

    def _announce(self, keys: list[OffloadKey], removed: bool) -> None:
        if not keys or self._events is None:
            return
        self._events.append(OffloadingEvent(keys=keys, medium=Medium.CPU, removed=removed))
        if removed:
            self._announced.difference_update(keys)
        else:
            self._announced.update(keys)
