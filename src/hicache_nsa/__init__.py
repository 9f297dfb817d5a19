"""hicache-nsa: host memory as a second KV cache tier for sparse-attention models.

>>> import hicache_nsa as hc
>>> fmt = hc.formats.dsa(num_layers=61)
>>> cache = hc.HiCache(fmt, device_pages=1024, host_size="50GiB")     # doctest: +SKIP
"""

from importlib.metadata import PackageNotFoundError, version

from hicache_nsa import formats
from hicache_nsa._core import LinkCurve
from hicache_nsa.cache import (
    HiCache,
    InsertResult,
    LoadBack,
    LockHandle,
    Pin,
    PrefixMatch,
    ResetReport,
)
from hicache_nsa.errors import (
    HiCacheError,
    InvariantError,
    OutOfPages,
    StaleHandleError,
    StorageError,
    TransferError,
)
from hicache_nsa.formats import BufferFormat, PoolFormat
from hicache_nsa.hashing import page_hashes
from hicache_nsa.page_index import PageIndex
from hicache_nsa.pools import DevicePool, HostPool
from hicache_nsa.stats import CacheStats, TierStats
from hicache_nsa.streams import CpuStream
from hicache_nsa.transfer import Ticket, TransferEngine
from hicache_nsa.tree import RadixTree

try:
    __version__ = version("hicache-nsa")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0+unknown"

__all__ = [
    "BufferFormat",
    "CacheStats",
    "CpuStream",
    "DevicePool",
    "HiCache",
    "HiCacheError",
    "HostPool",
    "InsertResult",
    "InvariantError",
    "LinkCurve",
    "LoadBack",
    "LockHandle",
    "OutOfPages",
    "PageIndex",
    "Pin",
    "PoolFormat",
    "PrefixMatch",
    "RadixTree",
    "ResetReport",
    "StaleHandleError",
    "StorageError",
    "Ticket",
    "TierStats",
    "TransferEngine",
    "TransferError",
    "__version__",
    "formats",
    "page_hashes",
]
