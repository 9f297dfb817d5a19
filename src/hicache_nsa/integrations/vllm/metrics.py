"""What the host tier reports through vLLM's own statistics and its Prometheus end point.

The names begin with ``vllm:``, by which vLLM finds the metrics that it has to take back when an
engine is made anew in one process.
"""

from __future__ import annotations

from vllm.distributed.kv_transfer.kv_connector.v1.offloading.metrics import (
    OffloadingConnectorStats,
)
from vllm.v1.kv_offload.base import (
    OffloadingCounterMetadata,
    OffloadingGaugeMetadata,
    OffloadingMetricMetadata,
)

from hicache_nsa.integrations.offloading.host_chunks import HostChunks

_COUNTERS = {
    "stored": "Chunks stored in the host tier.",
    "loaded": "Chunks loaded from the host tier.",
    "evicted": "Chunks evicted from the host tier to make room.",
    "refused": "Chunks not stored because the host tier had no room that could be evicted.",
}
_GAUGES = {
    "usage_perc": "Share of the host tier's chunks that hold something (0 to 1).",
    "pinned_perc": "Share of the host tier's chunks that loads or lookups keep now (0 to 1).",
    "pending_perc": "Share of the host tier's chunks that are being stored now (0 to 1).",
}


def counter_name(name: str) -> str:
    """``stored`` as Prometheus has it; it adds ``_total``."""
    return f"vllm:hicache_host_chunks_{name}"


def gauge_name(name: str) -> str:
    """``usage_perc`` as Prometheus has it."""
    return f"vllm:hicache_host_{name}"


def metric_definitions() -> dict[str, OffloadingMetricMetadata]:
    """Name and documentation of every metric, in vLLM's types."""
    return {
        **{counter_name(n): OffloadingCounterMetadata(text) for n, text in _COUNTERS.items()},
        **{gauge_name(n): OffloadingGaugeMetadata(text) for n, text in _GAUGES.items()},
    }


def take_stats(host: HostChunks, zeros: bool) -> OffloadingConnectorStats:
    """What has happened since the last call, and how full the tier is now.

    zeros: also what has not happened, so that every counter is there from the first call on.
    """
    stats = OffloadingConnectorStats()
    counts = host.take_counts()
    for name in _COUNTERS:
        value = getattr(counts, name)
        if value or zeros:
            stats.increase_counter(counter_name(name), value)
    now = host.stats()
    chunks = {
        "usage_perc": now.total_pages - now.free_pages,
        "pinned_perc": now.pinned_pages,
        "pending_perc": now.pending_pages,
    }
    for name in _GAUGES:
        stats.set_gauge(gauge_name(name), chunks[name] / now.total_pages)
    return stats
