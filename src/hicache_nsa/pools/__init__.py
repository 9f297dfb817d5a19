"""The pages of one tier: ``DevicePool`` on the engine's tensors, ``HostPool`` on host memory."""

from hicache_nsa.pools.device_pool import DevicePool, check_device
from hicache_nsa.pools.host_pool import LAYOUTS, HostPool
from hicache_nsa.pools.memory_kind import MemoryKind
from hicache_nsa.pools.memory_options import (
    MEMORY_OPTIONS,
    HostMemoryOptions,
    check_memory_options,
    split_memory_options,
)
from hicache_nsa.pools.pool import MAX_PAGES, Pool, native_format

__all__ = [
    "LAYOUTS",
    "MAX_PAGES",
    "MEMORY_OPTIONS",
    "DevicePool",
    "HostMemoryOptions",
    "HostPool",
    "MemoryKind",
    "Pool",
    "check_device",
    "check_memory_options",
    "native_format",
    "split_memory_options",
]
