"""What vLLM makes by name, in the scheduler and in every worker."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

from vllm.v1.kv_offload.base import (
    CanonicalKVCaches,
    OffloadingMetricMetadata,
    OffloadingSpec,
    OffloadingWorker,
)
from vllm.v1.kv_offload.config import OffloadingConfig

from hicache_nsa.integrations.offloading.host_chunks import HostChunks
from hicache_nsa.integrations.offloading.options import read_options
from hicache_nsa.integrations.vllm.geometry import geometry_of
from hicache_nsa.integrations.vllm.manager import HiCacheOffloadingManager
from hicache_nsa.integrations.vllm.metrics import metric_definitions
from hicache_nsa.integrations.vllm.worker import HiCacheOffloadingWorker

# Loads that are waited for within a step: vLLM 0.33 has them, 0.32 would pass the option over.
_SYNC_LOADS = "expedited" in inspect.signature(OffloadingWorker.submit_load).parameters
# What vLLM itself reads of kv_connector_extra_config.
VLLM_KEYS = (
    "spec_name",
    "spec_module_path",
    "block_size",
    "blocks_per_chunk",
    "offload_prompt_only",
    "self_describing_kv_events",
    "canonical_layout",
    *(("sync_load_budget_bytes",) if _SYNC_LOADS else ()),
)
INFO_KEYS = ("chunks", "page_bytes", "pages_per_chunk", "page_size", "layout", "eviction_policy")


class HiCacheOffloadingSpec(OffloadingSpec):
    """KV blocks in a host pool of each worker, indexed in the scheduler.

    kv_connector_extra_config: ``host_size`` (of one worker) or ``host_pages``, and ``layout``,
    ``io_backend``, ``eviction_policy``, ``spare``, ``pin_memory`` ... as ``HiCache`` has them.

    Raises:
        ValueError, TypeError: an unknown option, or a bad value, by name.
        HiCacheError: a model or a way of running it that is not supported, by name.
    """

    worker_class: ClassVar[type[HiCacheOffloadingWorker]] = HiCacheOffloadingWorker

    def __init__(self, config: OffloadingConfig) -> None:
        super().__init__(config)
        self.options = read_options(config.extra_config, VLLM_KEYS)
        self.geometry = geometry_of(config, self.options)
        self._manager: HiCacheOffloadingManager | None = None
        self._worker: HiCacheOffloadingWorker | None = None

    @classmethod
    def build_metric_definitions(
        cls, extra_config: dict[str, Any]
    ) -> dict[str, OffloadingMetricMetadata]:
        """Our metrics, beside those that vLLM has of every spec."""
        return metric_definitions()

    @classmethod
    def config_info_keys(cls, extra_config: dict[str, Any]) -> tuple[str, ...]:
        """Labels of vLLM's metric of fixed facts (vLLM 0.33)."""
        return INFO_KEYS

    def get_manager(self) -> HiCacheOffloadingManager:
        """The one manager, in the scheduler's process."""
        if self._manager is None:
            geometry, options = self.geometry, self.options
            facts = {**geometry._asdict(), **vars(options)}
            spare = int(options.spare * geometry.chunks)
            self._manager = HiCacheOffloadingManager(
                HostChunks(geometry.chunks, options.eviction_policy, spare),
                tokens_per_chunk=geometry.page_size * geometry.pages_per_chunk,
                info={name: facts[name] for name in INFO_KEYS},
                enable_events=self.kv_events_config.enable_kv_cache_events,
            )
        return self._manager

    def get_worker(self, kv_caches: CanonicalKVCaches) -> HiCacheOffloadingWorker:
        """The one worker of this process, on the tensors that vLLM gave it."""
        if self._worker is None:
            self._worker = self.worker_class(kv_caches, self.options, self.geometry)
        return self._worker
