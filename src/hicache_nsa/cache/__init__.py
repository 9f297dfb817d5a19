"""``HiCache``: device and host tier of one model's KV, kept together by the radix tree."""

from hicache_nsa.cache.agreement import Ready
from hicache_nsa.cache.event_log import KvEventLog
from hicache_nsa.cache.facade import HiCache
from hicache_nsa.cache.flushing import ResetReport
from hicache_nsa.cache.handles import LockHandle, PrefixMatch
from hicache_nsa.cache.inserting import InsertResult
from hicache_nsa.cache.kv_events import Cleared, KvEvent, Removed, Stored
from hicache_nsa.cache.load_back import LoadBack
from hicache_nsa.cache.pins import Pin

__all__ = [
    "Cleared",
    "HiCache",
    "InsertResult",
    "KvEvent",
    "KvEventLog",
    "LoadBack",
    "LockHandle",
    "Pin",
    "PrefixMatch",
    "Ready",
    "Removed",
    "ResetReport",
    "Stored",
]
